// Binding of profiles.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "karez/karez.h"
#include "python/src/bindings.h"
#include "python/src/gil_release.h"

namespace karez::python {
using namespace nb::literals;

namespace {

std::shared_ptr<Profile> make_profile(const World& world, std::int64_t steps, std::int64_t skip) {
  GilRelease without_gil;
  return {new Profile(world, {.steps = steps, .skip = skip}), [](Profile* profile) {
            GilRelease waiting;  // a profile may be the last owner of a world, whose threads may need the GIL to end
            delete profile;
          }};
}

}  // namespace

void init_profile(nb::module_& m) {
  m.def("make_profile", &make_profile, "world"_a, "steps"_a, "skip"_a);
  nb::class_<Profile>(m, "Profile", "A recording of the launches of a program.")
      .def("__init__", [](Profile*) { base::fail("a Profile cannot be constructed; karez.profile creates it"); })
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
          [](const Profile& profile, const std::string& by, std::int64_t rows) {
            GilRelease without_gil;
            return profile.table(by == "op"     ? ProfileRows::ops
                                 : by == "kind" ? ProfileRows::kinds
                                                : ProfileRows::modules,
                                 rows);
          },
          "by"_a, "rows"_a)
      .def(
          "save",
          [](const Profile& profile, const std::string& path) {
            GilRelease without_gil;
            profile.save(path);
          },
          "path"_a);
}

}  // namespace karez::python
