// Variables of a session, and which launches read or write them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "karez/device/device.h"
#include "karez/plan/plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// A variable of the session. Plans that use it hold it too: a forgotten variable is freed with the last such plan.
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

void sort_accesses(std::vector<VariableAccess>& accesses);  // by variable; removes duplicates

struct Variables {
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Variable>> by_key;  // device ("0.1") and name

  // By device: a pseudo-variable that plans with blocks in the device's arena write, so that their launches are
  // ordered.
  std::map<std::string, std::shared_ptr<Variable>> arenas;
};

std::string device_name(const PlanDevice& device);  // "0.1"

}  // namespace karez::runtime
