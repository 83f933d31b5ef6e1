// The error that is being handled, and the text of a torn launch.
#pragma once

#include <string>

#include "karez/base/error.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Text appended to the error of a launch that failed after it had written variables.
std::string torn_text();

// Call in a catch block: converts an exception of any type to an Error. Running out of memory has kind device, another
// library's exception kind user.
Error current_error();

}  // namespace karez::runtime
