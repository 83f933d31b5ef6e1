// The values that users compute with: tensors of the program being traced, parameters, and the operands that functions
// take.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "karez/api/names.h"

namespace karez {

// A line of the user's program. For a program in another language that calls this API, the file's name must live as
// long as the process.
class SourceLine {
 public:
  SourceLine() : SourceLine("", 0) {}
  SourceLine(const char* file, unsigned line) : file_(file), line_(line) {}
  // As a default argument: the line of the call.
  static SourceLine current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  const char* file_name() const { return file_; }
  unsigned line() const { return line_; }

 private:
  const char* file_;
  unsigned line_;
};

template <class Number>
concept Arithmetic = std::is_arithmetic_v<Number>;

class Array;
struct LazyValue;

// A value of the program that is being traced: it has a type but no bytes, and is valid only on that trace's thread
// while the trace exists. Outside of a trace: an array, host bytes, a number (f32, i64 or bool), or the result of
// functions of such values. These functions record the computation and return immediately; `array` and functions that
// need the bytes run it in the way of compiled functions (interactive.h). Any thread may use such a tensor.
struct Tensor {
  ValueId id;
  std::uint64_t trace = 0;  // number of the trace it belongs to
  TensorType type;
  std::shared_ptr<LazyValue> lazy = {};  // outside of a trace
  // While a handle exists, computing another value through this one also keeps this one's result in `lazy`.
  std::shared_ptr<const void> handle = {};

  Tensor();
  Tensor(const Tensor&);
  Tensor(Tensor&&) noexcept;
  Tensor& operator=(const Tensor&);
  Tensor& operator=(Tensor&&) noexcept;
  ~Tensor();
  Tensor(ValueId id, std::uint64_t trace, TensorType type);
  Tensor(const Array& array);
  Tensor(const HostArray& shared);  // copies the bytes
  Tensor(HostArray&& moved);        // takes over the bytes if it is their only owner, otherwise copies them
  template <Arithmetic Number> Tensor(Number number) {
    if constexpr (std::is_same_v<Number, bool>) *this = Tensor(HostArray::of<bool>({}, {number}));
    else if constexpr (std::is_integral_v<Number>)
      *this = Tensor(HostArray::of<std::int64_t>({}, {static_cast<std::int64_t>(number)}));
    else *this = Tensor(HostArray::of<float>({}, {static_cast<float>(number)}));
  }

  const Shape& shape() const { return type.shape; }
  DType dtype() const { return type.dtype; }
  int rank() const { return type.rank(); }
  std::int64_t size(int dimension) const;  // negative: from the end

  // Only outside of a trace. array: starts the computation and does not wait. read waits, and throws the error of a
  // failed computation.
  Array array(SourceLine where = SourceLine::current()) const;
  HostArray read(SourceLine where = SourceLine::current()) const;
  // The host bytes it was made of, which must not be written; invalid for any other tensor.
  HostArray host_array() const;
  template <class T = double> T item(SourceLine where = SourceLine::current()) const {
    require(type.count() == 1, "a tensor is ", type, "; item reads a single element");
    const HostArray whole = read(where);
    return with_type(whole.dtype(), [&]<class Element>() { return static_cast<T>(whole.data<Element>()[0]); });
  }
};

// Makes the first value of a variable, as nodes of a separate small graph. `site` distinguishes its random numbers from
// those of other variables, `state` is i64[2] = (the world's seed, 0).
using Initialiser = std::function<ValueId(Builder&, const TensorType&, const std::string& site, ValueId state)>;
Initialiser constant_init(double value);
// Uniform in [-bound, bound); the numbers depend on the seed, the variable's site and the logical element, so they are
// equal on every mesh and rank. Two models of one class have different initial weights.
Initialiser uniform_init(double bound);
// Normal with mean 0, by the Box-Muller transform of two such uniform numbers.
Initialiser normal_init(double deviation);

Initialiser value_init(HostArray value);  // the given elements
// As `rows`, except that this row (of dimension 0) is 0.
Initialiser zero_row_init(Initialiser rows, std::int64_t row);

// The site of the next variable of this thread: the number of variables it has made since World::seed, or since its
// last World ended. It is equal in every run and on every rank of a program.
std::string next_site();
void restart_sites();

// A trained weight, or other state that outlives a call ("variable" in the graph). Copies are the same parameter; two
// that were made separately are different, even if their names are equal. Its memory in a World is freed after its last
// copy and the last function that was compiled with it are destroyed.
class Parameter {
 public:
  Parameter() = default;
  // Without a site it takes the thread's next one; state with a first value that is not random needs none.
  Parameter(std::string name, TensorType type, Initialiser init, std::string site = next_site());
  // State that belongs to a parameter (such as an optimiser's): its name is "prefix." and the current name of that
  // parameter.
  Parameter(std::string prefix, const Parameter& base_parameter, TensorType type, Initialiser init);

  // The reference stays valid as long as the parameter, even after a new set_name.
  const std::string& name() const;
  void set_name(std::string name) const;  // from now on
  const std::string& site() const { return info_->site; }
  // Identifies it in every run of a program, independent of names: its site, the number of the copy if several have
  // that site, and its prefixes relative to the parameter it belongs to.
  std::string origin() const;
  const TensorType& type() const { return info_->type; }
  const Shape& shape() const { return info_->type.shape; }
  DType dtype() const { return info_->type.dtype; }
  Initialiser init() const;
  // Replaces its initialiser in every World in which no function has used it yet (World::write calls this).
  void set_initial_value(const HostArray& value) const;
  // The number of parameters of this name that its thread made before: distinguishes parameters of one name, equal on
  // every rank and in every run.
  int ordinal() const;
  bool operator==(const Parameter&) const = default;

  // Its identity, without keeping it alive.
  using Identity = std::weak_ptr<const void>;
  Identity identity() const { return std::shared_ptr<const void>(info_); }
  static Parameter of(const Identity& identity);  // an empty parameter if it no longer exists
  // `act` runs when the last copy is destroyed, on the thread that destroys it.
  void on_destroy(std::function<void()> act) const;
  // The buffers (running statistics) of the model that it belongs to; none if that no longer exists. nn::Module sets
  // them.
  std::vector<Parameter> buffers_of_model() const;
  void set_model_buffers(std::function<std::vector<Parameter>()> buffers) const;

 private:
  struct Info {
    TensorType type;
    std::string site;
    std::shared_ptr<const Info> base_parameter;  // its name is the prefix followed by this one's name
    std::string prefix;
    mutable Initialiser init;                    // guarded by the mutex, like all members below
    mutable std::deque<std::string> names = {};  // in order of assignment
    mutable int ordinal = 0;
    int copy = 0;  // how many parameters had its site before: 0 except for clones
    mutable std::mutex mutex = {};
    mutable std::vector<std::function<void()>> on_destroy = {};
    mutable std::function<std::vector<Parameter>()> buffers = {};
    const std::string& name() const;
    void set_name(std::string name) const;  // with the mutex held
    ~Info();
  };
  static std::shared_ptr<const Info> made(std::shared_ptr<Info> info);
  std::shared_ptr<const Info> info_;
};

// The line of the user's program that made a tensor of the program being traced; empty for inputs of the program and
// other tensors.
std::string line_of(const Tensor& tensor);

// The result of a compiled function that is called with tensors: the tensors that its body returns.
struct Tensors {
  std::vector<Tensor> list;

  operator Tensor() const { return only(); }
  const Tensor& only() const;  // the only one; an error with their number if there are several
  const Tensor& operator[](std::size_t i) const { return list.at(i); }
  std::size_t size() const { return list.size(); }
};

// An operand: a tensor (or a value convertible to one), a parameter or a number, with the line of the user's program.
// Functions take operands of this type; the conversion happens at the call, so that errors can quote its line.
struct Term {
  std::variant<Tensor, Parameter, bool, std::int64_t, double> value;
  SourceLine where;
  // Marks a tensor f64[] or i64[] that represents a host number and takes dtypes as a number does; wide: it does not
  // fit i32.
  enum class AsNumber : std::uint8_t { no, yes, wide };
  AsNumber as_number = AsNumber::no;

  Term(const Term&);
  Term(Term&&) noexcept;
  Term& operator=(const Term&);
  Term& operator=(Term&&) noexcept;
  ~Term();
  Term(const Tensor& tensor, SourceLine line = SourceLine::current());
  Term(Tensor&& passing, SourceLine line = SourceLine::current());  // it cannot be read later
  Term(const Array& array, SourceLine line = SourceLine::current());
  Term(HostArray array, SourceLine line = SourceLine::current());
  Term(Parameter parameter, SourceLine line = SourceLine::current());
  Term(const Tensors& tensors, SourceLine line = SourceLine::current());
  template <Arithmetic Number> Term(Number number, SourceLine line = SourceLine::current()) : where(line) {
    if constexpr (std::is_same_v<Number, bool>) value = number;
    else if constexpr (std::is_integral_v<Number>) value = static_cast<std::int64_t>(number);
    else value = static_cast<double>(number);
  }

  bool is_number() const { return value.index() >= 2; }
  bool stands_for_number() const { return as_number != AsNumber::no; }
};

// Arithmetic broadcasts as NumPy does and promotes as PyTorch does: bool < integers < floats; a number, and within one
// kind a scalar tensor, never widens a tensor. Dividing integers gives f32.
Tensor operator+(Term a, Term b);
Tensor operator-(Term a, Term b);
Tensor operator*(Term a, Term b);
Tensor operator/(Term a, Term b);
Tensor operator-(Term x);
Tensor operator<(Term a, Term b);
Tensor operator<=(Term a, Term b);
Tensor operator>(Term a, Term b);
Tensor operator>=(Term a, Term b);

}  // namespace karez
