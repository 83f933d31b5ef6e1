// Translates C++ errors into the exceptions of karez.errors, and finds the Python lines that errors name.
#pragma once

#include <nanobind/nanobind.h>

#include "karez/api/tensor.h"

namespace karez::python {

void init_errors(nanobind::module_& m);

// The user's current line: the innermost Python frame outside of this package.
SourceLine user_line();
// A line of a file. The name of the file is stored until the process ends.
SourceLine line_of(std::string_view file, unsigned line);

}  // namespace karez::python
