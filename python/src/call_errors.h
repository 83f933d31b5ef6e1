// Errors of calls whose arguments do not fit the signature of a function.
#pragma once

#include <nanobind/nanobind.h>

namespace karez::python {

// Makes all functions, methods and constructors of a module report such calls in one sentence. Called after they are
// defined.
void explain_calls(const nanobind::module_& m);

}  // namespace karez::python
