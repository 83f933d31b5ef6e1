// Bindings of random numbers as values of the program.
#include "karez/api/random.h"

#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
using namespace nb::literals;

void init_random(nb::module_& m) {
  m.def(
      "random_uniform",
      [](const Shape& size, DType dtype) {
        ensure_default_device();
        return Value(random_uniform(size, dtype, user_line()));
      },
      "size"_a, "dtype"_a = "float32");
  m.def(
      "random_normal",
      [](const Shape& size, DType dtype) {
        ensure_default_device();
        return Value(random_normal(size, dtype, user_line()));
      },
      "size"_a, "dtype"_a = "float32");
}

}  // namespace karez::python
