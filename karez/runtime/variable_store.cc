// Looks up, adds and forgets variables.
#include "karez/runtime/variable_store.h"

#include <utility>
#include <vector>

#include "karez/base/error.h"
#include "karez/base/suggest_names.h"

namespace karez::runtime {

std::shared_ptr<Variable> VariableStore::find(const Key& key) const {
  const auto found = variables_.find(key);
  return found == variables_.end() ? nullptr : found->second;
}

const std::shared_ptr<Variable>& VariableStore::at(const PlanDevice& device, std::string_view name) const {
  const auto found = variables_.find({device_name(device), std::string(name)});
  if (found != variables_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [key, variable] : variables_)
    if (key.first == device_name(device)) names.push_back(key.second);
  fail("device ", device_name(device), " has no variable '", name, "'; ", suggest_names(name, std::move(names)));
}

void VariableStore::add(const Key& key, std::shared_ptr<Variable> variable) {
  variables_.emplace(key, std::move(variable));
}

void VariableStore::forget(std::string_view name) {
  std::erase_if(variables_, [&](const auto& entry) { return entry.first.second == name; });
}

std::shared_ptr<Variable> VariableStore::arena(const std::string& device) {
  auto& arena = arenas_[device];
  if (!arena) arena = std::make_shared<Variable>();
  return arena;
}

}  // namespace karez::runtime
