// Binding of profiles.
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "karez/karez.h"
#include "python/src/bindings.h"
#include "python/src/gil_release.h"

namespace karez::python {
using namespace nb::literals;

void init_profile(nb::module_& m) {
  nb::class_<Profile>(m, "Profile", "A recording of the launches of a program.")
      .def(
          "__init__",
          [](Profile* self, const World& world, std::int64_t steps, std::int64_t skip) {
            GilRelease without_gil;
            new (self) Profile(world, {.steps = steps, .skip = skip});
          },
          "world"_a, "steps"_a, "skip"_a)
      .def(
          "stop",
          [](Profile& profile, bool wait) {
            GilRelease without_gil;
            profile.stop(wait);
          },
          "wait"_a)
      .def_prop_ro("launches",
                   [](const Profile& profile) {
                     GilRelease without_gil;
                     return profile.launches();
                   })
      .def(
          "table",
          [](const Profile& profile, bool modules, std::int64_t rows) {
            GilRelease without_gil;
            return profile.table(modules ? ProfileRows::modules : ProfileRows::ops, rows);
          },
          "modules"_a, "rows"_a)
      .def(
          "save",
          [](const Profile& profile, const std::string& path) {
            GilRelease without_gil;
            profile.save(path);
          },
          "path"_a);
}

}  // namespace karez::python
