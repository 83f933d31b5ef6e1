// Bindings that return the mesh, the layout and the parts of a tensor, or make a tensor from parts.
#include "karez/api/parts.h"
#include "karez/api/interactive.h"
#include "python/src/bindings.h"
#include "python/src/value.h"

namespace karez::python {
namespace {
using namespace nb::literals;

// The kind of the layout's Partial entries, such as "sum", and the names of their mesh axes; empty if there are none.
std::pair<std::string, std::string> partial_of(const Layout& layout, const Mesh& mesh) {
  std::string kind, axes;
  for (std::size_t axis = 0; axis < layout.size(); ++axis) {
    if (!layout[axis].is_partial()) continue;
    kind = sbp::name_of(layout[axis].reduce);
    axes += (axes.empty() ? "" : "+") + mesh.axes[axis].name;
  }
  return {kind, axes};
}

// The mesh or None, the names of the mesh axes that split each dimension, and the result of partial_of.
nb::tuple placement_tuple(const std::optional<DeviceMesh>& on, const Layout& layout, int rank) {
  if (!on || layout.empty())
    return nb::make_tuple(on ? nb::cast(*on) : nb::none(), std::vector<std::string>(static_cast<std::size_t>(rank)), "",
                          "");
  const auto [kind, axes] = partial_of(layout, on->mesh);
  return nb::make_tuple(*on, sbp::partition_spec_of(layout, rank, on->mesh), kind, axes);
}

// Without `layout`, only the mesh is returned, and nothing is computed.
nb::tuple placement(const Value& value, bool layout) {
  const Tensor tensor = value.outside();
  const SourceLine line = user_line();
  if (!tensor.host_array().valid()) ensure_default_device();
  Place at;
  {
    GilRelease without_gil;
    if (layout) at = place_of(tensor, line);
    else at.mesh = mesh_of(tensor);
  }
  return placement_tuple(at.mesh, at.layout, tensor.rank());
}

nb::tuple stored_placement(const World& world, const Value& value) {
  const Parameter parameter = value.parameter();
  Place at;
  {
    GilRelease without_gil;
    at = place_of(world, parameter);
  }
  return placement_tuple(at.mesh, at.layout, value.type().rank());
}

// For each part: the name of the device (None for the host), the box and the values.
nb::list local_parts_of(const Value& value) {
  const Tensor tensor = value.outside();
  nb::list out;
  const auto add = [&](const nb::object& device, const sbp::Box& box, const HostArray& data) {
    nb::list ranges;
    for (const sbp::Range& range : box) ranges.append(nb::make_tuple(range.begin, range.end));
    out.append(nb::make_tuple(device, ranges, Value(Tensor(data))));
  };
  if (const HostArray lent = tensor.host_array(); lent.valid()) {
    add(nb::none(), sbp::full_box(lent.shape()), lent);
    return out;
  }
  const SourceLine line = user_line();
  ensure_default_device();
  std::vector<LocalData> parts;
  {
    GilRelease without_gil;
    parts = local_parts(computed(tensor, line));
  }
  for (const LocalData& part : parts)
    add(nb::cast(cat(part.device.rank, ".", part.device.device)), part.box, part.data);
  return out;
}

Value tensor_from_parts(const std::vector<const Value*>& values, const DeviceMesh& on,
                        const std::vector<std::string>& axes_by_dim,
                        const std::vector<std::pair<std::string, int>>& splits, const std::string& kind,
                        const std::vector<std::string>& axes, const std::optional<Shape>& shape,
                        const std::optional<DType>& dtype) {
  std::vector<HostArray> parts;
  const SourceLine line = user_line();
  for (const Value* value : values) {
    const Tensor tensor = value->outside();
    HostArray lent = tensor.host_array();
    if (!lent.valid()) {
      ensure_default_device();
      GilRelease without_gil;
      lent = tensor.read(line);
    }
    parts.push_back(std::move(lent));
  }
  // Without a shape or parts, from_parts below throws an error; until then the length of the layout is the rank.
  const int rank = shape           ? static_cast<int>(shape->size())
                   : parts.empty() ? static_cast<int>(axes_by_dim.size())
                                   : parts[0].type().rank();
  std::vector<sbp::AxisSplit> list;
  for (const auto& [axis, dim] : splits) list.push_back({axis, dim});
  sbp::Layout layout = list.empty() ? sbp::layout_from(axes_by_dim, rank, on.mesh, "from_parts: the layout")
                                    : sbp::layout_from(list, rank, on.mesh, "from_parts: the layout");
  if (!kind.empty()) {
    const sbp::Reduce reduce = kind == "max" ? sbp::Reduce::max : kind == "min" ? sbp::Reduce::min : sbp::Reduce::sum;
    for (const std::string& axis : axes) {
      sbp::Sbp& entry = layout[static_cast<std::size_t>(on.mesh.axis(axis))];
      require(ErrorKind::layout, entry.is_broadcast(), "from_parts: the layout names the mesh axis '", axis, "' twice");
      entry = sbp::P(reduce);
    }
  }
  GilRelease without_gil;
  return from_parts(std::move(parts), on, std::move(layout), {shape, dtype});
}

}  // namespace

void init_parts(nb::module_& m) {
  m.def("placement", &placement);
  m.def("stored_placement", &stored_placement);
  m.def("laid_on", [](const Operand& x, const DeviceMesh& mesh, const std::vector<std::string>& axes_by_dim) {
    return Value(laid_on(x, mesh, axes_by_dim));
  });
  m.def("local_parts", &local_parts_of);
  m.def("from_parts", &tensor_from_parts, "parts"_a, "mesh"_a, "axes_by_dim"_a, "splits"_a, "kind"_a, "axes"_a,
        "shape"_a.none(), "dtype"_a.none());
}

}  // namespace karez::python
