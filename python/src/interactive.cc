// Where it is computed what no compiled function computes: on the default world's first device, made when that is first
// needed.
#include "karez/api/interactive.h"

#include <atomic>
#include <optional>

#include "python/src/topics.h"
#include "python/src/value.h"

namespace karez::python {
namespace {

std::atomic<int> world_number{0};  // raised when the default world goes
thread_local std::optional<Interactive> here;
thread_local int here_of = 0;

}  // namespace

void lie_somewhere() {
  if (tracing() || (here && here_of == world_number)) return;
  const nb::object mesh = nb::module_::import_("karez.worlds").attr("first_device")();
  here.reset();
  here.emplace(*nb::inst_ptr<DeviceMesh>(mesh));
  here_of = world_number;
}

void init_interactive(nb::module_& m) {
  m.def("forget_default_world", [] {
    ++world_number;
    here.reset();
  });
}

}  // namespace karez::python
