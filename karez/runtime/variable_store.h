// The variables of a session, by device and name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "karez/plan/plan.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/variables.h"

namespace karez::runtime {

class VariableStore {
 public:
  using Key = std::pair<std::string, std::string>;  // device ("0.1") and name

  std::shared_ptr<Variable> find(const Key& key) const;  // null if there is no such variable
  // Returns the variable. If the name is unknown, throws an error that lists the variables of the device.
  const std::shared_ptr<Variable>& at(const PlanDevice& device, std::string_view name) const;
  void add(const Key& key, std::shared_ptr<Variable> variable);
  void forget(std::string_view name);  // forgets the variable on all devices

  // Returns a pseudo-variable that stands for the arena of the device. Every plan with blocks in the arena is treated
  // as a writer of it, so that the launches of these plans are ordered.
  std::shared_ptr<Variable> arena(const std::string& device);

 private:
  std::map<Key, std::shared_ptr<Variable>> variables_;
  std::map<std::string, std::shared_ptr<Variable>> arenas_;  // by device
};

}  // namespace karez::runtime
