// Makes arrays for the inputs and variables of a plan that runs without its program, from files, numbers or a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "karez/runtime/session.h"
#include "tools/namespace.h"

namespace karez::tools {

struct InputOptions {
  std::uint64_t seed = 1;
  std::int64_t integers = 1;        // integer inputs are random numbers from 0 to this value minus 1
  std::vector<std::string> values;  // "NAME=FILE.npy" or "NAME=NUMBER", one per input
};

// Returns a feed for each input of the plan. An input that `values` does not list gets random values, which depend on
// the seed and the name: floats in [0, 1), integers below `integers`, or bools. Throws Error for an unknown name, a
// name listed twice, a file of a different type, and a number that the type cannot represent.
Feeds feeds_of(const Plan& plan, const InputOptions& options);

struct VariableValue {
  std::string name;
  PlanDevice device;
  HostArray value;  // one-dimensional: the elements in memory order
};

// Returns a value for each variable. Floats are random numbers in [0, 0.01), integers and bools are 0. Values depend
// only on the seed and the name, so that copies on several devices are equal. They are not negative, because some
// variables are second moments, of which an optimiser takes the square root.
std::vector<VariableValue> variables_of(const Plan& plan, std::uint64_t seed);

}  // namespace karez::tools
