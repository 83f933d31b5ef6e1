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
  std::int64_t integers = 1;       // integer inputs are drawn from 0 to this minus 1
  std::vector<std::string> given;  // "NAME=FILE.npy" or "NAME=NUMBER", one per input
};

// One feed for each input of the plan: the given value, otherwise floats in [0, 1), integers below `integers`, and
// bools, by seed and name. Errors: an unknown name, a name given twice, a file of another type, a number that the type
// cannot represent.
Feeds feeds_of(const Plan& plan, const InputOptions& options);

struct VariableValue {
  std::string name;
  PlanDevice device;
  HostArray value;  // one-dimensional: the elements in memory order
};

// By seed and name, so that copies on several devices are equal: floats in [0, 0.01) (not negative, because some are
// second moments, of which an optimiser takes the square root), integers and bools 0.
std::vector<VariableValue> variables_of(const Plan& plan, std::uint64_t seed);

}  // namespace karez::tools
