// Converts the exception that is being handled to an Error, and provides the text for torn launches.
#pragma once

#include <string>

#include "karez/base/error.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Returns the text to append to the error of a launch that failed after it had written variables.
std::string torn_text();

// Call in a catch block. Converts the exception, of any type, to an Error. The kind is device for std::bad_alloc, and
// user for exceptions of other libraries.
Error current_error();

}  // namespace karez::runtime
