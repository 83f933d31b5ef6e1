// A variable of a session, and the lists of variables that launches read or write.
#pragma once

#include <string>
#include <vector>

#include "karez/device/device.h"
#include "karez/plan/plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// A variable of the session. The plans that use a variable share its ownership: after Session::forget_variable, its
// memory is freed with the last such plan.
struct Variable {
  std::string layout;
  Memory memory;
};

// A variable that a launch uses. If one of two launches of different plans writes a variable that the other uses, they
// run one after the other.
struct VariableAccess {
  const Variable* variable = nullptr;
  bool writes = false;
};

void sort_accesses(std::vector<VariableAccess>& accesses);  // sorts by variable and removes duplicates

std::string device_name(const PlanDevice& device);  // "0.1"

}  // namespace karez::runtime
