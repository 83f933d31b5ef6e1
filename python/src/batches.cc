// Bindings of the sources of labelled images, and of the progress line.
#include "karez/api/batches.h"

#include <nanobind/stl/string_view.h>

#include "karez/api/progress.h"
#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
using namespace nb::literals;

void init_batches(nb::module_& m) {
  nb::class_<LabelledImages>(m, "LabelledImages").def_prop_ro("rows", &LabelledImages::rows);
  m.def("read_labelled_images", &read_labelled_images, "directory"_a, "part"_a, "classes"_a = 10,
        nb::call_guard<GilRelease>());
  nb::class_<Batches>(m, "ImageBatches", "Batches of labelled images, read inside the plan.")
      .def(
          "__init__",
          [](Batches* self, const LabelledImages& rows, std::int64_t batch, bool train, std::uint64_t seed, float mean,
             float deviation) {
            new (self) Batches(rows, {batch, train, seed, mean, deviation});
          },
          "rows"_a, nb::kw_only(), "batch"_a = 64, "train"_a = true, "seed"_a = 1, "mean"_a = 0.0f,
          "deviation"_a = 1.0f)
      .def_prop_ro("per_epoch", &Batches::per_epoch)
      .def_prop_ro("rows", &Batches::rows)
      .def(
          "images",
          [](const Batches& self, std::int64_t position) {
            return Feed{self.images(), position};
          },
          "position"_a)
      .def(
          "labels",
          [](const Batches& self, std::int64_t position) {
            return Feed{self.labels(), position};
          },
          "position"_a)
      .def(
          "weights",
          [](const Batches& self, std::int64_t position) {
            return Feed{self.weights(), position};
          },
          "position"_a);
  nb::class_<Progress>(m, "Progress",
                       "A progress line with the step, the loss, the samples per second and the remaining time.")
      .def(nb::init<std::int64_t, std::int64_t>(), "steps"_a, "samples"_a)
      .def("show", &Progress::show, "step"_a, "epoch"_a, "loss"_a)
      .def("finish", &Progress::finish);
}

}  // namespace karez::python
