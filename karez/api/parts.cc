// Implements the functions that return the mesh, layout and parts of a value, and those that make arrays from parts.
#include "karez/api/parts.h"
#include "karez/api/namespace.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "karez/api/interactive.h"
#include "karez/api/state/array_value.h"
#include "karez/api/trace/expression.h"
#include "karez/api/trace/expression_plans.h"
#include "karez/api/trace/summands.h"
#include "karez/base/text.h"
#include "karez/sbp/effective_layout.h"

namespace karez {

Place place_of(const Array& array) {
  const ArrayValue& value = ArrayValue::of(array);
  return {DeviceMesh{value.living_world(), value.spec->mesh}, value.spec->layout};
}

Place place_of(const Tensor& tensor, SourceLine where) {
  require(tensor.lazy != nullptr, "a tensor ", tensor.type,
          " of a program that is being traced has no mesh and layout yet: the planner chooses them");
  if (tensor.lazy->host.valid()) return {};
  // Another thread may compute the value between these lines, but then its array exists.
  const auto producer = tensor.lazy->producer();
  if (const Array array = tensor.lazy->array(); array.valid()) return place_of(array);
  if (has_planner_layout(*tensor.lazy) || tensor.lazy->producer() == nullptr) return place_of(computed(tensor, where));
  const DeviceMesh mesh = mesh_of(producer.get());
  const auto& layout = producer->graph().value(tensor.lazy->id()).layout;
  return {mesh, layout ? *layout : broadcast_layout(mesh.mesh)};
}

std::optional<DeviceMesh> mesh_of(const Tensor& tensor) {
  require(tensor.lazy != nullptr, "the mesh of a tensor ", tensor.type,
          " cannot be requested while its program is being traced: it is the mesh of the program");
  if (tensor.lazy->host.valid()) return {};
  const auto producer = tensor.lazy->producer();
  if (const Array array = tensor.lazy->array(); array.valid()) return place_of(array).mesh;
  return mesh_of(producer.get());
}

Place place_of(const World& world, const Parameter& parameter) {
  const auto state = world.mesh().world;
  WorldLock lock(*state);
  const StoredVariable& stored = state->variables.stored(parameter)->second;
  return {DeviceMesh{state, stored.mesh}, stored.layout};
}

Array computed_whole(const Tensor& tensor, SourceLine where) {
  const Array array = computed(tensor, where);
  const bool is_broadcast = sbp::effective_layout(array.mesh(), array.layout()) == broadcast_layout(array.mesh());
  if (is_broadcast || tensor.lazy == nullptr || tensor.lazy->has_user_layout()) return array;
  return computed(with_layout(Term(tensor, where), {}), where);
}

namespace {

// Returns the positions of this rank's devices on the mesh.
std::vector<int> positions_of(const Mesh& mesh, int rank) {
  std::vector<int> out;
  for (int position = 0; position < mesh.size(); ++position)
    if (mesh.devices[static_cast<std::size_t>(position)].rank == rank) out.push_back(position);
  return out;
}

std::string name_of(DeviceName device) { return cat(device.rank, ".", device.device); }
DeviceName device_at(const Mesh& mesh, int position) { return mesh.devices[static_cast<std::size_t>(position)]; }

// Returns the coordinates of the position on the axes whose layout entry satisfies `is_selected`, and 0 on the others.
template <class Predicate>
std::vector<int> coordinates_on(const Mesh& mesh, int position, const Layout& layout, Predicate is_selected) {
  std::vector<int> out = mesh.coordinates(position);
  for (std::size_t axis = 0; axis < layout.size(); ++axis)
    if (!is_selected(layout[axis])) out[axis] = 0;
  return out;
}

// Returns the size of one dimension of the global array. If this rank holds the complete dimension, this is the sum of
// the sizes of its distinct parts. Otherwise, every device of the mesh is assumed to hold as much as each device of
// this rank.
std::int64_t global_size(const std::vector<HostArray>& parts, const Mesh& mesh, const std::vector<int>& positions,
                         const Layout& layout, int dim) {
  const auto index = static_cast<std::size_t>(dim);
  std::map<std::vector<int>, std::int64_t> sizes;
  std::int64_t sum = 0, devices = 1;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t size = parts[i].shape()[index];
    if (sizes.emplace(coordinates_on(mesh, positions[i], layout, [&](Sbp entry) { return entry.is_split(dim); }), size)
            .second)
      sum += size;
  }
  for (std::size_t axis = 0; axis < layout.size(); ++axis)
    if (layout[axis].is_split(dim)) devices *= mesh.axes[axis].size;
  if (static_cast<std::int64_t>(sizes.size()) == devices) return sum;
  const std::int64_t first = sizes.begin()->second;
  require(ErrorKind::shape,
          std::all_of(sizes.begin(), sizes.end(), [&](const auto& entry) { return entry.second == first; }),
          "from_parts: the parts of this rank have different sizes in dimension ", dim,
          " and do not cover the complete dimension; pass the shape of the global array");
  return first * devices;
}

TensorType global_type(const std::vector<HostArray>& parts, const Mesh& mesh, int rank,
                       const std::vector<int>& positions, const Layout& layout, const WholeType& requested) {
  if (parts.empty()) {
    if (!requested.shape || !requested.dtype)
      fail(ErrorKind::shape, "from_parts: rank ", rank, " has no device of ", sbp::print(mesh),
           ", so it has no part that determines the type; pass shape and dtype of the global array");
    return {*requested.dtype, *requested.shape};
  }
  const TensorType& first = parts[0].type();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const TensorType& type = parts[i].type();
    require(ErrorKind::type, type.dtype == first.dtype, "from_parts: part 0 is ", first, ", part ", i, " is ", type,
            "; all parts must have the same dtype");
    require(ErrorKind::shape, type.rank() == first.rank(), "from_parts: part 0 is ", first, ", part ", i, " is ", type,
            "; all parts must have the same number of dimensions");
  }
  require(ErrorKind::type, !requested.dtype || *requested.dtype == first.dtype, "from_parts: part 0 is ", first,
          ", but the requested dtype is ", requested.dtype.value_or(first.dtype));
  TensorType out = first;
  for (int dim = 0; dim < first.rank() && !requested.shape; ++dim)
    out.shape[static_cast<std::size_t>(dim)] = global_size(parts, mesh, positions, layout, dim);
  if (requested.shape) out.shape = *requested.shape;
  return out;
}

}  // namespace

std::vector<LocalData> local_parts(const Array& array) {
  const std::vector<HostArray> local = array.local();  // in the order of the devices' names
  const Mesh& mesh = array.mesh();
  const std::vector<int> positions = positions_of(mesh, ArrayValue::of(array).living_world()->ranks.rank());
  std::vector<LocalData> out;
  for (const int position : positions) {
    const DeviceName device = device_at(mesh, position);
    const auto index =
        std::count_if(positions.begin(), positions.end(), [&](int other) { return device_at(mesh, other) < device; });
    out.push_back({device, local_box(array.type().shape, mesh, array.layout(), position),
                   local[static_cast<std::size_t>(index)]});
  }
  return out;
}

Array from_parts(std::vector<HostArray> parts, const DeviceMesh& device_mesh, Layout layout,
                 const WholeType& requested) {
  require(device_mesh.world != nullptr, "from_parts requires a mesh made by World::mesh");
  WorldState& world = *device_mesh.world;
  const Mesh& mesh = device_mesh.mesh;
  const int rank = world.ranks.rank();
  const std::vector<int> positions = positions_of(mesh, rank);
  if (parts.size() != positions.size())
    fail(ErrorKind::shape, "from_parts: expected ", positions.size(), " parts, one for each device of rank ", rank,
         " on ", sbp::print(mesh),
         positions.empty() ? std::string()
                           : cat(" (", join(positions, ", ", [&](int p) { return name_of(device_at(mesh, p)); }), ")"),
         ", got ", parts.size());
  if (layout.size() != mesh.axes.size())
    fail(ErrorKind::layout, "from_parts: the layout must have one entry for each ", "axis of ", sbp::print(mesh),
         ", got ", sbp::print(layout));
  for (const HostArray& part : parts) require(part.valid(), "from_parts: a part is an uninitialised array");
  const TensorType type = global_type(parts, mesh, rank, positions, layout, requested);
  std::string reason;
  require(ErrorKind::layout, is_valid(type, mesh, layout, &reason), "from_parts: ", reason);
  const std::string placement = cat(sbp::print(type, mesh, layout), " on ", sbp::print(mesh));
  const auto summands = summands_of(type, mesh, layout);
  std::map<std::vector<int>, std::size_t> first_parts;  // by coordinates that identify a part
  std::vector<runtime::DeviceShard> shards;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const DeviceName device = device_at(mesh, positions[i]);
    const Box box = local_box(type.shape, mesh, layout, positions[i]);
    require(ErrorKind::shape, parts[i].shape() == shape_of(box), "from_parts: part ", i, " is ", parts[i].type(),
            ", but device ", name_of(device), " has ", TensorType{type.dtype, shape_of(box)}, " of ", placement);
    const auto [other, is_new] = first_parts.emplace(
        coordinates_on(mesh, positions[i], layout, [](Sbp entry) { return !entry.is_broadcast(); }), i);
    require(is_new || std::memcmp(parts[i].bytes(), parts[other->second].bytes(),
                                  static_cast<std::size_t>(parts[i].type().bytes())) == 0,
            "from_parts: parts ", other->second, " and ", i, " differ, but devices ",
            name_of(device_at(mesh, positions[other->second])), " and ", name_of(device), " hold the same part of ",
            placement);
    const Box shard_box = summands ? local_box(summands->type.shape, mesh, summands->layout, positions[i]) : box;
    Ints begin;
    for (const Range& range : shard_box) begin.push_back(range.begin);
    shards.push_back({{device.rank, device.device}, std::move(begin), shape_of(shard_box), parts[i]});
  }
  std::optional<runtime::Result> result;
  if (shards.empty()) world.session.check_open();
  else result = world.session.device_put(summands ? summands->type : type, std::move(shards));
  return Array(std::make_shared<const ArrayValue>(
      ArrayValue{world.weak_from_this(), std::move(result),
                 std::make_shared<const ArraySpec>(ArraySpec{type, mesh, std::move(layout)})}));
}

Tensor laid_on(Term x, const DeviceMesh& mesh, const std::vector<std::string>& axes) {
  require(mesh.world != nullptr, "laid_on requires a mesh made by World::mesh");
  return at_line(x.where, [&](Trace& t) {
    require(t.expression != nullptr,
            "laid_on: a program that is being traced runs on the mesh of its function; no other mesh can be set");
    t.expression->place_on(mesh.world, mesh.mesh);
    const ValueId id = t.value(x, t.dtype_of(x));
    Layout layout = layout_from(axes, t.graph.type(id).rank(), mesh.mesh, cat("a layout for ", t.graph.type(id)));
    const ValueId out = t.builder.one("layout", {id});
    t.graph.value(out).layout = std::move(layout);
    return t.tensor(out);
  });
}

}  // namespace karez
