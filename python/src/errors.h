// Errors of the C++ face as exceptions of karez.errors, and the lines of Python that they name.
#pragma once

#include <nanobind/nanobind.h>

#include "karez/api/tensor.h"

namespace karez::python {

void init_errors(nanobind::module_& m);

// Where the user's program stands: the innermost Python frame outside of this package.
SourceLine user_line();
// A line of a file whose name lives as long as the process.
SourceLine line_of(std::string_view file, unsigned line);

}  // namespace karez::python
