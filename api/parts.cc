// Where values lie: asked of arrays, and of what is not computed yet.
#include "api/parts.h"

#include "api/inside/array_value.h"
#include "api/inside/expression.h"
#include "api/inside/rooms.h"
#include "api/inside/run_expressions.h"

namespace karez {

Place place_of(const Array& array) {
  const ArrayValue& value = ArrayValue::of(array);
  return {DeviceMesh{value.living_world(), value.kept->mesh}, value.kept->layout};
}

Place place_of(const Tensor& tensor) {
  require(tensor.lazy != nullptr, "a tensor ", tensor.type,
          " of a program that is being traced lies nowhere yet: it is laid when the program is planned");
  if (tensor.lazy->host.valid()) return {};
  // It may be computed meanwhile, but then its array is there.
  const auto from = tensor.lazy->from();
  if (const Array array = tensor.lazy->array(); array.valid()) return place_of(array);
  const DeviceMesh mesh = mesh_of(from.get());
  const auto& layout = from->trace.graph.value(tensor.lazy->id).layout;
  return {mesh, layout ? *layout : broadcast_layout(mesh.mesh)};
}

Place place_of(const World& world, const Parameter& parameter) {
  const auto state = world.mesh().world;
  WorldLock lock(*state);
  const StoredVariable& stored = state->stored(parameter)->second;
  return {DeviceMesh{state, stored.mesh}, stored.layout};
}

}  // namespace karez
