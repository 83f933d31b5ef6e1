// Implements access to the contents of an array and to its world.
#include "karez/api/state/array_value.h"

#include "karez/api/namespace.h"

namespace karez {

const ArrayValue& ArrayValue::of(const Array& array) {
  require(array.valid(), "the array is uninitialised; Future::value returns valid arrays");
  return *array.value_;
}

std::shared_ptr<WorldState> ArrayValue::living_world() const {
  auto state = world.lock();
  if (state == nullptr)
    fail("the array ", sbp::print(spec->type, spec->mesh, spec->layout),
         " belongs to a world that no longer exists; read it while the World, or a mesh, function or future of it, is "
         "alive");
  return state;
}

}  // namespace karez
