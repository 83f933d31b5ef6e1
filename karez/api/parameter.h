// Parameters, which are trained weights and other state that outlives a call, and initialisers for their first values.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "karez/api/names.h"

namespace karez {

// Adds nodes that compute the first value of a variable to a separate small graph. `site` distinguishes the variable's
// random numbers from those of other variables; `state` is i64[2] = (the world's seed, 0).
using Initialiser = std::function<ValueId(Builder&, const TensorType&, const std::string& site, ValueId state)>;
Initialiser constant_init(double value);
// Uniform numbers in [-bound, bound). They depend on the seed, the variable's site and the logical element, so they are
// the same on every mesh and rank. Two models of the same class have different initial weights.
Initialiser uniform_init(double bound);
// Normal numbers with mean 0, by the Box-Muller transform of two uniform numbers.
Initialiser normal_init(double deviation);

// The elements of `value`, which are cast if the variable has another floating-point dtype.
Initialiser value_init(HostArray value);
// Initialises with `rows`, and then sets row `row` (along dimension 0) to zero.
Initialiser zero_row_init(Initialiser rows, std::int64_t row);

// Takes the next site of this thread: "#" and the number of sites that the thread has taken since World::seed, or since
// its last World ended. The n-th site is the same in every run and on every rank of a program.
std::string next_site();
void restart_sites();  // the next site of this thread is then the first one again

// A trained weight, or other state that outlives a call ("variable" in the graph). Copies refer to the same parameter.
// Two parameters that were made separately are different, even if their names are equal. The memory of a parameter in a
// World is freed after the last copy of the parameter and the last function that was compiled with it are destroyed.
class Parameter {
 public:
  Parameter() = default;
  // The default site is the thread's next site. A parameter whose first value is not random may share a site.
  Parameter(std::string name, TensorType type, Initialiser init, std::string site = next_site());
  // Makes state that belongs to a parameter, such as an optimiser's momentum. Its name is "prefix." followed by the
  // current name of that parameter.
  Parameter(std::string prefix, const Parameter& base_parameter, TensorType type, Initialiser init);

  // The reference stays valid as long as the parameter, even after set_name.
  const std::string& name() const;
  void set_name(std::string name) const;
  const std::string& site() const { return info_->site; }
  // Returns a string that identifies the parameter in every run of a program, independently of its name. It consists of
  // the site, a number if several parameters have this site, and the prefixes if the parameter is state of another one.
  std::string origin() const;
  const TensorType& type() const { return info_->type; }
  const Shape& shape() const { return info_->type.shape; }
  DType dtype() const { return info_->type.dtype; }
  Initialiser init() const;
  // Replaces the initialiser in every World in which no function has used the parameter yet (World::write calls this).
  void set_initial_value(const HostArray& value) const;
  // Returns the number of parameters with the same name that the thread made earlier. It distinguishes parameters with
  // the same name, and is the same on every rank and in every run.
  int ordinal() const;
  // The number of times that the value was written in any world, by launches or by the host.
  std::uint64_t writes() const;
  void count_write() const;
  bool operator==(const Parameter&) const = default;

  // Identifies a parameter without keeping it alive.
  using Identity = std::weak_ptr<const void>;
  Identity identity() const { return std::shared_ptr<const void>(info_); }
  static Parameter of(const Identity& identity);  // an empty parameter if the parameter no longer exists
  // When the last copy is destroyed, calls `callback` on the thread that destroys it.
  void on_destroy(std::function<void()> callback) const;
  // Returns the buffers (running statistics) of the model to which the parameter belongs, or an empty list if the model
  // no longer exists. nn::Module sets them.
  std::vector<Parameter> buffers_of_model() const;
  void set_model_buffers(std::function<std::vector<Parameter>()> buffers) const;

 private:
  struct Info {
    TensorType type;
    std::string site;
    std::shared_ptr<const Info> base_parameter;  // the parameter to which this state belongs, otherwise null
    std::string prefix;                          // of the name, before the base parameter's name
    mutable Initialiser init;                    // guarded by the mutex, like all members below
    mutable std::deque<std::string> names = {};  // in order of assignment
    mutable int ordinal = 0;
    int copy = 0;  // the number of earlier parameters with the same site
    mutable std::mutex mutex = {};
    mutable std::atomic<std::uint64_t> writes = 0;
    mutable std::vector<std::function<void()>> on_destroy = {};
    mutable std::function<std::vector<Parameter>()> buffers = {};
    const std::string& name() const;
    void set_name(std::string name) const;  // call with the mutex held
    ~Info();
  };
  static std::shared_ptr<const Info> checked(std::shared_ptr<Info> info);
  std::shared_ptr<const Info> info_;
};

}  // namespace karez
