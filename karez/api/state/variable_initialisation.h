// First values of variables that no function has used before.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/state/world_state.h"

namespace karez {

// A variable that no compiled function has used before, under the key it will have.
struct NewVariable {
  Parameter parameter;
  WorldState::Key key;
  Mesh mesh;
  Layout layout;
  std::optional<HostArray> relocated_value;  // what it held where it lay before
};

// By its name in the program: its name in the session.
using VariableNames = std::map<std::string, std::string>;

// A program's own names tell apart what it reads, the session's tell apart all there is.
Plan& rename_variables(Plan& plan, const VariableNames& names);

// Writes their first values, in the layouts chosen: by one launch, or where memory is limited and that takes too much,
// by several, of which each has what the others' variables leave. Where one variable alone takes too much: an error
// (kind device), and none of them is born.
void initialise(const std::shared_ptr<WorldState>& owner, const std::vector<NewVariable>& fresh);

}  // namespace karez
