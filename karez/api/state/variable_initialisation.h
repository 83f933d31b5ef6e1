// Creates variables and writes their first values.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/state/world_state.h"

namespace karez {

// A variable that no compiled function has used yet, with its future key.
struct NewVariable {
  Parameter parameter;
  VariableKey key;
  Mesh mesh;
  Layout layout;
  std::optional<HostArray> relocated_value;  // the variable's value on its previous mesh, if any
};

// The names of variables in the session, by their names in the program.
using VariableNames = std::map<std::string, std::string>;

// Renames the variables of a plan: replaces their names in the program, which are unique only in the program, by their
// names in the session, which are unique in the world.
Plan& rename_variables(Plan& plan, const VariableNames& names);

// Creates the variables in the chosen layouts and writes their first values. This takes one launch, or several if one
// launch would exceed a memory limit; each of these uses only the memory that the other variables leave. If a single
// variable needs too much memory, throws an error of kind device and creates no variable.
void initialise(const std::shared_ptr<WorldState>& owner, const std::vector<NewVariable>& variables);

}  // namespace karez
