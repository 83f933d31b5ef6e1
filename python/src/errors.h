// Errors of C++ as exceptions of karez.errors, with the Python lines that they name.
#pragma once

#include <nanobind/nanobind.h>

#include "karez/api/tensor.h"

namespace karez::python {

void init_errors(nanobind::module_& m);

// The user's current line: the innermost Python frame outside of this package.
SourceLine user_line();
// A line of a file whose name is stored for the life of the process.
SourceLine line_of(std::string_view file, unsigned line);

}  // namespace karez::python
