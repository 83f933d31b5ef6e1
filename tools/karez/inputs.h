// Arrays for the inputs and variables of a plan that runs without its program: from files, numbers or a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "karez/runtime/session.h"
#include "tools/namespace.h"

namespace karez::tools {

struct InputOptions {
  std::uint64_t seed = 1;
  std::int64_t integers = 1;        // integer inputs are drawn from 0 to this minus 1
  std::vector<std::string> values;  // "NAME=FILE.npy" or "NAME=NUMBER", one per input
};

// Returns a feed for each input of the plan: the value from `values`, otherwise floats in [0, 1), integers below
// `integers`, and bools, drawn by seed and name. An unknown name, a name listed twice, a file of a different type and a
// number that the type cannot represent are errors.
Feeds feeds_of(const Plan& plan, const InputOptions& options);

struct VariableValue {
  std::string name;
  PlanDevice device;
  HostArray value;  // one-dimensional: the elements in memory order
};

// Returns a value for each variable. Values depend on seed and name, so that copies on several devices are equal:
// floats in [0, 0.01) (not negative, because some are second moments, whose square root an optimiser takes), integers
// and bools 0.
std::vector<VariableValue> variables_of(const Plan& plan, std::uint64_t seed);

}  // namespace karez::tools
