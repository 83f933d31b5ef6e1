// Functions of images in C++ that Python calls, and that data sets execute without the interpreter.
#pragma once

#include <string>

#include "karez/api/images.h"

namespace karez::python {

// One of `plain` and `random` is set.
struct ImageFunction {
  std::string name;
  data::images::ImageFunction plain = nullptr;
  data::images::RandomImageFunction random = nullptr;
};

}  // namespace karez::python
