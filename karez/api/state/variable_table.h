// VariableTable: the variables of a world, by name and by the parameter that owns them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "karez/api/parameter.h"
#include "karez/api/state/pending_weights.h"
#include "karez/api/state/variable_key.h"
#include "karez/api/trace/builtin_variables.h"

namespace karez {

// A variable with its owner, mesh and layout, fixed by the first function that used it. A variable that only tensors
// outside of compiled functions have used is provisional: a compiled function may still relocate it.
struct StoredVariable {
  Parameter::Identity owner;  // messages and files use the owner's name
  TensorType type;
  Mesh mesh;
  Layout layout;
  bool provisional = false;
};

// Guarded by a WorldLock.
struct VariableTable {
  // A key is the name and ordinal that the parameter had when a function first used it. If two threads have made
  // parameters with the same name and ordinal, the next free ordinal is used.
  using Map = std::map<VariableKey, StoredVariable>;
  Map by_key;
  std::map<Parameter::Identity, VariableKey, std::owner_less<Parameter::Identity>> keys;
  PendingWeights pending_weights;  // for variables that do not exist yet
  // The values of variables that will be created again on another mesh.
  std::vector<std::pair<Parameter, HostArray>> relocated_values;
  std::vector<std::pair<Mesh, LossScaleState>> loss_scales;  // in the order of the first use of their meshes

  Map::const_iterator find(const Parameter& parameter) const;  // by_key.end() if there is no variable
  bool contains(const Parameter& parameter) const { return find(parameter) != by_key.end(); }
  // Returns the only variable with this name; throws if there is none or more than one.
  Map::const_iterator stored(std::string_view name) const;
  Map::const_iterator stored(const Parameter& parameter) const;  // throws if there is no variable
  VariableKey free_key(const Parameter& parameter) const;
  // Returns the owner's current name and ordinal.
  static VariableKey display_name(const VariableKey& key, const StoredVariable& variable);
  const LossScaleState& loss_scale(const Mesh& mesh);  // the loss scale of functions on this mesh
  void add(const VariableKey& key, const Parameter& parameter, Mesh mesh, Layout layout);
  void erase(const VariableKey& key);
  std::vector<VariableKey> drop_expired();  // erases variables whose owner no longer exists; returns their keys
  void clear();                             // keeps the loss scales
};

}  // namespace karez
