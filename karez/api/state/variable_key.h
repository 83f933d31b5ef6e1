// VariableKey: the name and number that identify a variable in a world.
#pragma once

#include <string>
#include <utility>

namespace karez {

// A variable's name and ordinal. The ordinal numbers parameters with the same name, beginning with 0.
using VariableKey = std::pair<std::string, int>;

// Returns the name of a parameter in a program or session: the parameter's name, or "w#1" for the second parameter
// named w. Names of parameters do not contain '#'.
std::string session_name(const std::string& name, int ordinal);
inline std::string session_name(const VariableKey& key) { return session_name(key.first, key.second); }

}  // namespace karez
