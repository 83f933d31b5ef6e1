// Computation outside of compiled functions, on the first device of the default world. The world is created when it is
// first needed.
#include "karez/api/interactive.h"

#include <atomic>
#include <optional>

#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {

std::atomic<int> world_number{0};  // the number of default worlds that have ended
thread_local std::optional<Interactive> current_scope;
thread_local int current_scope_world = 0;

}  // namespace

void ensure_default_device() {
  if (tracing() || (current_scope && current_scope_world == world_number)) return;
  const nb::object mesh = nb::module_::import_("karez.worlds").attr("first_device")();
  current_scope.reset();
  current_scope.emplace(*nb::inst_ptr<DeviceMesh>(mesh));
  current_scope_world = world_number;
}

void init_interactive(nb::module_& m) {
  m.def("forget_default_world", [] {
    ++world_number;
    GilRelease without_gil;  // functions of data sets may need the lock before the world can end
    current_scope.reset();
  });
}

}  // namespace karez::python
