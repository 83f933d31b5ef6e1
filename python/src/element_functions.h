// The stages `map` and `filter` with Python functions.
#pragma once

#include <nanobind/nanobind.h>

#include "karez/karez.h"

namespace karez::python {

void init_element_functions(nanobind::class_<data::Dataset>& type);

}  // namespace karez::python
