// Functions of images in C++ that Python calls, and that data sets execute without the interpreter.
#pragma once

#include <functional>
#include <string>

#include "karez/api/images.h"

namespace karez::python {

// One of `plain` and `random` is set. `of_tensor` is the same function of a tensor; it is null if there is none.
struct ImageFunction {
  std::string name;
  data::images::ImageFunction plain = nullptr;
  data::images::RandomImageFunction random = nullptr;
  std::function<Tensor(const Term&)> of_tensor = nullptr;
};

}  // namespace karez::python
