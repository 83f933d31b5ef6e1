// Where tensors lie: their meshes and layouts.
#include "api/parts.h"
#include "api/interactive.h"
#include "python/src/topics.h"
#include "python/src/value.h"
#include "sbp/layout_words.h"

namespace karez::python {
namespace {

// The names of the axes that a Partial entry stands on, and its kind; empty: there is none.
std::pair<std::string, std::string> partial_of(const Layout& layout, const Mesh& mesh) {
  std::string kind, axes;
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (!layout[axis].is_partial()) continue;
    kind = sbp::name_of(layout[axis].reduce);
    axes += (axes.empty() ? "" : "+") + mesh.axes[axis].name;
  }
  return {kind, axes};
}

// Its mesh or None, by dimension the names of the axes that split it, and what is Partial.
nb::tuple place_in_words(const std::optional<DeviceMesh>& on, const Layout& layout, int rank) {
  if (!on) return nb::make_tuple(nb::none(), std::vector<std::string>(static_cast<std::size_t>(rank)), "", "");
  const auto [kind, axes] = partial_of(layout, on->mesh);
  return nb::make_tuple(*on, sbp::words_of(layout, rank, on->mesh), kind, axes);
}

nb::tuple place(const Value& value) {
  const Tensor tensor = value.outside();
  if (!tensor.lent().valid()) lie_somewhere();
  const Place at = place_of(tensor);
  return place_in_words(at.mesh, at.layout, tensor.rank());
}

nb::tuple stored_place(const World& world, const Value& value) {
  const Parameter parameter = value.parameter();
  Place at;
  {
    GilRelease released;
    at = place_of(world, parameter);
  }
  return place_in_words(at.mesh, at.layout, value.type().rank());
}

}  // namespace

void init_parts(nb::module_& m) {
  m.def("place", &place);
  m.def("stored_place", &stored_place);
}

}  // namespace karez::python
