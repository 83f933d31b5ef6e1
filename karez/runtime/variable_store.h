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
  // An unknown name is an error that lists the variables of the device.
  const std::shared_ptr<Variable>& at(const PlanDevice& device, std::string_view name) const;
  void add(const Key& key, std::shared_ptr<Variable> variable);
  void forget(std::string_view name);  // forgets the variable on all devices

  // A pseudo-variable of the device that plans with blocks in its arena write, so that their launches are ordered.
  std::shared_ptr<Variable> arena(const std::string& device);

 private:
  std::map<Key, std::shared_ptr<Variable>> variables_;
  std::map<std::string, std::shared_ptr<Variable>> arenas_;  // by device
};

}  // namespace karez::runtime
