// What a plan that runs without its program is given: arrays for its inputs and variables, drawn from a seed or saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "karez/runtime/session.h"
#include "tools/namespace.h"

namespace karez::tools {

struct InputOptions {
  std::uint64_t seed = 1;
  std::int64_t integers = 1;       // integer inputs are drawn from 0 to this less one
  std::vector<std::string> given;  // "NAME=FILE.npy" or "NAME=NUMBER", by input
};

// One feed for each input of the plan: what is given; else floats in [0, 1), integers below `integers`, and bools, by
// seed and name. Errors: a name that no input has, one given twice, a file of another type, a number that the type does
// not hold.
Feeds feeds_of(const Plan& plan, const InputOptions& options);

struct VariableValue {
  std::string name;
  PlanDevice device;
  HostArray value;  // flat: elements as they lie in memory
};

// By seed and name, so that devices which hold copies hold equal ones: floats in [0, 0.01) (not below 0, as some are
// second moments of which an optimiser takes the root), integers and bools 0.
std::vector<VariableValue> variables_of(const Plan& plan, std::uint64_t seed);

}  // namespace karez::tools
