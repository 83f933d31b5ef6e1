// Binding of the progress line.
#include "karez/api/progress.h"

#include "python/src/bindings.h"

namespace karez::python {
using namespace nb::literals;

void init_progress(nb::module_& m) {
  nb::class_<Progress>(m, "Progress",
                       "A progress line with the step, the loss, the samples per second and the remaining time.")
      .def(nb::init<std::int64_t, std::int64_t>(), "steps"_a, "samples"_a)
      .def("show", &Progress::show, "step"_a, "epoch"_a, "loss"_a)
      .def("finish", &Progress::finish);
}

}  // namespace karez::python
