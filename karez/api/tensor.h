// What users compute with: tensors of the program being traced, parameters, and the operands that functions take.
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

// A line of the user's program. Of one in another language, whose face stands on this one, the file's name lives as
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

// A value of the program that is being traced: it has a type, no bytes, and exists while its trace does, on that
// trace's thread alone. Outside of a trace: an array, host bytes, a number (f32, i64 or bool), or what functions make
// of such. These write down what is to be computed and return at once; `array` and what asks for bytes run it, as
// compiled functions run (interactive.h). From any thread.
struct Tensor {
  ValueId id;
  std::uint64_t trace = 0;  // number of the trace it belongs to
  TensorType type;
  std::shared_ptr<LazyValue> lazy = {};     // outside of a trace
  std::shared_ptr<const void> handle = {};  // while one lives, `lazy` is kept when it is computed on the way to another

  Tensor();
  Tensor(const Tensor&);
  Tensor(Tensor&&) noexcept;
  Tensor& operator=(const Tensor&);
  Tensor& operator=(Tensor&&) noexcept;
  ~Tensor();
  Tensor(ValueId id, std::uint64_t trace, TensorType type);
  Tensor(const Array& array);
  Tensor(const HostArray& shared);  // its bytes are copied
  Tensor(HostArray&& moved);        // likewise, but for its only holder's, who gives them away
  template <Arithmetic Number> Tensor(Number number) {
    if constexpr (std::is_same_v<Number, bool>) *this = Tensor(HostArray::of<bool>({}, {number}));
    else if constexpr (std::is_integral_v<Number>)
      *this = Tensor(HostArray::of<std::int64_t>({}, {static_cast<std::int64_t>(number)}));
    else *this = Tensor(HostArray::of<float>({}, {static_cast<float>(number)}));
  }

  const Shape& shape() const { return type.shape; }
  DType dtype() const { return type.dtype; }
  int rank() const { return type.rank(); }
  std::int64_t size(int dimension) const;  // may count from the end

  // Outside of a trace alone. array: begins to compute it and waits for nothing. read waits, and throws what went
  // wrong.
  Array array(SourceLine where = SourceLine::current()) const;
  HostArray read(SourceLine where = SourceLine::current()) const;
  HostArray host_array()
      const;  // bytes of the host's that it was made of, which nobody may write; none where it is anything else
  template <class T = double> T item(SourceLine where = SourceLine::current()) const {
    require(type.count() == 1, "a tensor is ", type, "; item reads a single element");
    const HostArray whole = read(where);
    return with_type(whole.dtype(), [&]<class Element>() { return static_cast<T>(whole.data<Element>()[0]); });
  }
};

// How a variable is born: nodes of a small graph of its own that make its first value. `site` tells its random numbers
// from those of others, `state` is i64[2] = (the world's seed, 0).
using Initialiser = std::function<ValueId(Builder&, const TensorType&, const std::string& site, ValueId state)>;
Initialiser constant_init(double value);
// Uniform in [-bound, bound); numbers follow the seed, the variable's site and the logical element, so they are the
// same on every mesh and rank. Two models of one class begin with different weights.
Initialiser uniform_init(double bound);
// Normal with mean 0, by Box and Muller's transform of two such uniform numbers.
Initialiser normal_init(double deviation);

Initialiser value_init(HostArray value);  // these very elements
Initialiser zero_row_init(Initialiser rows,
                          std::int64_t row);  // as `rows`, but for this row (of dimension 0), which is 0

// The site of a variable that this thread makes: how many it has made since World::seed, or since its last World ended.
// The same in every run and on every rank of a program.
std::string next_site();
void restart_sites();

// A trained weight, or other state that outlives a call ("variable" in the graph). Copies are the same parameter; two
// that were made apart are two, whatever their names. Its memory in a World goes when the last copy and the last
// function that was compiled with it are gone.
class Parameter {
 public:
  Parameter() = default;
  // Without a site it takes the thread's next one; state that does not begin with random numbers needs none.
  Parameter(std::string name, TensorType type, Initialiser init, std::string site = next_site());
  // State beside a parameter (an optimiser's): called "prefix." and whatever that one is called.
  Parameter(std::string prefix, const Parameter& base_parameter, TensorType type, Initialiser init);

  const std::string& name() const;  // stays good as long as the parameter, also where that is called otherwise later
  void set_name(std::string name) const;  // from here on
  const std::string& site() const { return info_->site; }
  // What tells it apart in every run of a program, whatever is called first: its site, which of the clones that have
  // it, and what it is of the parameter that it stands beside.
  std::string origin() const;
  const TensorType& type() const { return info_->type; }
  const Shape& shape() const { return info_->type.shape; }
  DType dtype() const { return info_->type.dtype; }
  Initialiser init() const;
  // Takes its initialiser's place in every World where no function has used it yet (World::write does so).
  void set_initial_value(const HostArray& value) const;
  // How many parameters of this name its thread had before it: what tells two of one name apart, the same on every rank
  // and in every run.
  int ordinal() const;
  bool operator==(const Parameter&) const = default;

  // Who it is, for those that must not keep it alive.
  using Identity = std::weak_ptr<const void>;
  Identity identity() const { return std::shared_ptr<const void>(info_); }
  static Parameter of(const Identity& identity);     // never made, where it is no more
  void on_destroy(std::function<void()> act) const;  // runs when the last copy is gone, on the thread that let it go
  // The buffers (running statistics) of the model that it is a parameter of; none where that is no more. nn::Module
  // says which.
  std::vector<Parameter> buffers_of_model() const;
  void set_model_buffers(std::function<std::vector<Parameter>()> buffers) const;

 private:
  struct Info {
    TensorType type;
    std::string site;
    std::shared_ptr<const Info> base_parameter;  // whose name, behind the prefix, is its own
    std::string prefix;
    mutable Initialiser init;                    // guarded by the mutex, as what follows
    mutable std::deque<std::string> names = {};  // the latest last
    mutable int ordinal = 0;
    int copy = 0;  // how many parameters had its site before: 0, but of clones
    mutable std::mutex mutex = {};
    mutable std::vector<std::function<void()>> on_destroy = {};
    mutable std::function<std::vector<Parameter>()> buffers = {};
    const std::string& name() const;
    void set_name(std::string name) const;  // with the mutex
    ~Info();
  };
  static std::shared_ptr<const Info> made(std::shared_ptr<Info> info);
  std::shared_ptr<const Info> info_;
};

// The line of the user's program that made a tensor of the program being traced; empty of one of its inputs, and of any
// other.
std::string line_of(const Tensor& tensor);

// What a compiled function gives when it is called with tensors: as many as its body returns.
struct Tensors {
  std::vector<Tensor> list;

  operator Tensor() const { return only(); }
  const Tensor& only() const;  // of one; otherwise an error that says how many there are
  const Tensor& operator[](std::size_t i) const { return list.at(i); }
  std::size_t size() const { return list.size(); }
};

// An operand: a tensor (or what becomes one), a parameter or a number, with the line of the user's program on which it
// was written. Functions take these; the conversion happens where the call stands, and so errors can quote it.
struct Term {
  std::variant<Tensor, Parameter, bool, std::int64_t, double> value;
  SourceLine where;
  // A tensor f64[] or i64[] in the place of a number of the host's, which takes dtypes as that would; wide: one that
  // i32 does not hold.
  enum class AsNumber : std::uint8_t { no, yes, wide };
  AsNumber as_number = AsNumber::no;

  Term(const Term&);
  Term(Term&&) noexcept;
  Term& operator=(const Term&);
  Term& operator=(Term&&) noexcept;
  ~Term();
  Term(const Tensor& tensor, SourceLine line = SourceLine::current());
  Term(Tensor&& passing, SourceLine line = SourceLine::current());  // nobody can ask for it later
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
