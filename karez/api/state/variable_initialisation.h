// First values of variables that no function has used before.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/state/world_state.h"

namespace karez {

// A variable that no compiled function has used before, under its future key.
struct NewVariable {
  Parameter parameter;
  WorldState::Key key;
  Mesh mesh;
  Layout layout;
  std::optional<HostArray> relocated_value;  // its value on its previous mesh
};

// Names in the session, by names in the program.
using VariableNames = std::map<std::string, std::string>;

// Names in a program are unique in that program only, names in the session in the whole world.
Plan& rename_variables(Plan& plan, const VariableNames& names);

// Writes their first values, in the chosen layouts: by one launch, or if that needs too much memory under a limit, by
// several, each within the memory that the other variables leave. If a single variable needs too much, that is an error
// (kind device), and no variable is created.
void initialise(const std::shared_ptr<WorldState>& owner, const std::vector<NewVariable>& fresh);

}  // namespace karez
