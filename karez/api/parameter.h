// Parameters: trained weights and other state that outlives a call, and the initialisers that make their first values.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "karez/api/names.h"

namespace karez {

// Makes the first value of a variable, as nodes of a separate small graph. `site` distinguishes the variable's random
// numbers from those of other variables; `state` is i64[2] = (the world's seed, 0).
using Initialiser = std::function<ValueId(Builder&, const TensorType&, const std::string& site, ValueId state)>;
Initialiser constant_init(double value);
// Uniform numbers in [-bound, bound); they depend on the seed, the variable's site and the logical element, so they are
// equal on every mesh and rank. Two models of one class have different initial weights.
Initialiser uniform_init(double bound);
// Normal numbers with mean 0, by the Box-Muller transform of two uniform numbers.
Initialiser normal_init(double deviation);

Initialiser value_init(HostArray value);  // the elements of `value`
// Makes the values of `rows`, with zeros in this row (of dimension 0).
Initialiser zero_row_init(Initialiser rows, std::int64_t row);

// Returns the site of the next variable of this thread: the number of variables that the thread has made since
// World::seed, or since its last World ended. The site is equal in every run and on every rank of a program.
std::string next_site();
void restart_sites();

// A trained weight, or other state that outlives a call ("variable" in the graph). Copies are the same parameter; two
// parameters that were made separately are different, even if their names are equal. The memory of a parameter in a
// World is freed after its last copy and the last function that was compiled with it are destroyed.
class Parameter {
 public:
  Parameter() = default;
  // The default site is the next one of the thread; a parameter whose first value is not random may share a site.
  Parameter(std::string name, TensorType type, Initialiser init, std::string site = next_site());
  // Makes state that belongs to a parameter, such as that of an optimiser; its name is "prefix." and the current name
  // of that parameter.
  Parameter(std::string prefix, const Parameter& base_parameter, TensorType type, Initialiser init);

  // The reference stays valid as long as the parameter, even after set_name.
  const std::string& name() const;
  void set_name(std::string name) const;
  const std::string& site() const { return info_->site; }
  // Returns a text that identifies the parameter in every run of a program, independently of names: its site, a number
  // if several parameters have that site, and its prefixes relative to the parameter to which it belongs.
  std::string origin() const;
  const TensorType& type() const { return info_->type; }
  const Shape& shape() const { return info_->type.shape; }
  DType dtype() const { return info_->type.dtype; }
  Initialiser init() const;
  // Replaces the initialiser in every World in which no function has used the parameter yet (World::write calls this).
  void set_initial_value(const HostArray& value) const;
  // Returns the number of parameters with this name that the thread had already made. It distinguishes parameters with
  // the same name, and is equal on every rank and in every run.
  int ordinal() const;
  bool operator==(const Parameter&) const = default;

  // Identifies a parameter without keeping it alive.
  using Identity = std::weak_ptr<const void>;
  Identity identity() const { return std::shared_ptr<const void>(info_); }
  static Parameter of(const Identity& identity);  // an empty parameter if the parameter no longer exists
  // Calls `callback` when the last copy is destroyed, on the thread that destroys it.
  void on_destroy(std::function<void()> callback) const;
  // Returns the buffers (running statistics) of the model to which the parameter belongs; empty if the model no longer
  // exists. nn::Module sets them.
  std::vector<Parameter> buffers_of_model() const;
  void set_model_buffers(std::function<std::vector<Parameter>()> buffers) const;

 private:
  struct Info {
    TensorType type;
    std::string site;
    std::shared_ptr<const Info> base_parameter;  // the parameter to which this state belongs, otherwise null
    std::string prefix;                          // of the base parameter's name
    mutable Initialiser init;                    // guarded by the mutex, like all members below
    mutable std::deque<std::string> names = {};  // in order of assignment
    mutable int ordinal = 0;
    int copy = 0;  // the number of earlier parameters with the same site: 0 except for clones
    mutable std::mutex mutex = {};
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
