// Implements VariableTable: finds, adds and removes variables.
#include "karez/api/state/variable_table.h"

#include "karez/api/namespace.h"
#include "karez/base/suggest_names.h"
#include "karez/base/text.h"

namespace karez {

VariableTable::Map::const_iterator VariableTable::find(const Parameter& parameter) const {
  const auto key = keys.find(parameter.identity());
  return key == keys.end() ? by_key.end() : by_key.find(key->second);
}

VariableKey VariableTable::display_name(const VariableKey& key, const StoredVariable& variable) {
  const Parameter owner = Parameter::of(variable.owner);
  if (owner == Parameter()) return key;
  return {owner.name(), owner.ordinal()};
}

void VariableTable::erase(const VariableKey& key) {
  const auto variable = by_key.find(key);
  keys.erase(variable->second.owner);
  by_key.erase(variable);
}

VariableTable::Map::const_iterator VariableTable::stored(std::string_view name) const {
  std::vector<Map::const_iterator> matches;
  std::vector<std::string> descriptions;
  for (auto variable = by_key.begin(); variable != by_key.end(); ++variable) {
    const auto [current_name, ordinal] = display_name(variable->first, variable->second);
    if (current_name != name) continue;
    matches.push_back(variable);
    const StoredVariable& stored = variable->second;
    descriptions.push_back(cat(print(stored.type, stored.mesh, stored.layout), " (ordinal ", ordinal, ")"));
  }
  if (matches.empty())
    fail(ErrorKind::name, "no variable '", name,
         "' exists yet: a variable is created by the first call of a function that uses it; ",
         suggest_names(name, by_key, [](const auto& item) { return display_name(item.first, item.second).first; }));
  if (matches.size() == 1) return matches[0];
  fail(ErrorKind::name, "'", name, "' is the name of ", matches.size(), " variables: ", join(descriptions, " and "),
       "; select one of them by its Parameter");
}

VariableTable::Map::const_iterator VariableTable::stored(const Parameter& parameter) const {
  auto variable = find(parameter);
  require(ErrorKind::name, variable != by_key.end(), "parameter '", parameter.name(),
          "' has no variable yet: the first call of a function that uses the parameter creates it",
          by_key.count({parameter.name(), parameter.ordinal()}) > 0 ? "; another parameter has this name" : "");
  return variable;
}

VariableKey VariableTable::free_key(const Parameter& parameter) const {
  VariableKey key{parameter.name(), parameter.ordinal()};
  while (by_key.count(key) > 0) ++key.second;
  return key;
}

const LossScaleState& VariableTable::loss_scale(const Mesh& mesh) {
  for (const auto& [scale_mesh, state] : loss_scales)
    if (scale_mesh == mesh) return state;
  return loss_scales.emplace_back(mesh, LossScaleState(loss_scales.size() + 1)).second;
}

void VariableTable::add(const VariableKey& key, const Parameter& parameter, Mesh mesh, Layout layout) {
  by_key[key] = {parameter.identity(), parameter.type(), std::move(mesh), std::move(layout)};
  keys[parameter.identity()] = key;
}

std::vector<VariableKey> VariableTable::drop_expired() {
  std::vector<VariableKey> dropped;
  std::erase_if(by_key, [&](const auto& item) {
    if (!item.second.owner.expired()) return false;
    dropped.push_back(item.first);
    keys.erase(item.second.owner);
    return true;
  });
  return dropped;
}

void VariableTable::clear() {
  by_key.clear();
  keys.clear();
  pending_weights = {};
  relocated_values.clear();
}

}  // namespace karez
