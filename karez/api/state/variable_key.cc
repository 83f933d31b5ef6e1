// Makes the session names of variables.
#include "karez/api/state/variable_key.h"

#include "karez/api/namespace.h"
#include "karez/base/error.h"

namespace karez {

std::string session_name(const std::string& name, int ordinal) { return ordinal == 0 ? name : cat(name, "#", ordinal); }

}  // namespace karez
