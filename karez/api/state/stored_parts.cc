// Implements StoredParts: copies rows of elements between the parts of a variable and an array with its complete value.
#include "karez/api/state/stored_parts.h"
#include "karez/api/namespace.h"

#include <cstring>
#include <set>

#include "karez/passes/lowering/call.h"

namespace karez {
namespace {

PlanDevice plan_device(DeviceName name) { return {name.rank, name.device, "cpu"}; }

// Copies a box between an array and `part`, which holds only this box. The direction is from `part` to the array if
// `into_array` is true, otherwise from the array to `part`. Copies one row of the last dimension at a time.
void copy_box(const HostArray& array, const HostArray& part, const Box& box, bool into_array) {
  const auto element_bytes = static_cast<std::size_t>(size_of(array.dtype()));
  const std::size_t row_bytes =
      (part.shape().empty() ? 1 : static_cast<std::size_t>(part.shape().back())) * element_bytes;
  const Shape rows(part.shape().begin(), part.shape().empty() ? part.shape().end() : part.shape().end() - 1);
  std::byte* part_row = part.bytes();
  for_each_index(rows, [&](const std::vector<std::int64_t>& index) {
    std::int64_t offset = box.empty() ? 0 : box.back().begin;
    for (std::size_t d = 0; d < index.size(); ++d) offset += (box[d].begin + index[d]) * array.view().strides[d];
    std::byte* array_row = array.bytes() + static_cast<std::size_t>(offset) * element_bytes;
    std::memcpy(into_array ? array_row : part_row, into_array ? part_row : array_row, row_bytes);
    part_row += row_bytes;
  });
}

}  // namespace

StoredParts parts_of(WorldState& world, const VariableKey& key, const StoredVariable& variable, bool writes) {
  const TensorType& type = variable.type;
  std::set<std::vector<std::pair<std::int64_t, std::int64_t>>> distinct_boxes;
  std::vector<Box> boxes;
  std::vector<std::pair<PlanDevice, View>> parts;
  for (int position = 0; position < variable.mesh.size(); ++position) {
    if (variable.mesh.devices[static_cast<std::size_t>(position)].rank != world.ranks.rank()) continue;
    Box box = local_box(type.shape, variable.mesh, variable.layout, position);
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (const Range& range : box) ranges.emplace_back(range.begin, range.end);
    if (empty(box) || (!distinct_boxes.insert(ranges).second && !writes)) continue;
    parts.emplace_back(plan_device(variable.mesh.devices[static_cast<std::size_t>(position)]),
                       stored_view(type.dtype, sbp::shape_of(box)));
    boxes.push_back(std::move(box));
  }
  if (const Parameter owner = Parameter::of(variable.owner); writes && owner != Parameter()) owner.count_write();
  return {type, std::move(boxes), world.session.lock_variable(session_name(key), parts, writes)};
}

HostArray read_parts(const StoredParts& stored) {
  HostArray out(stored.type);
  const std::vector<HostArray> values = stored.lock.read();
  for (std::size_t i = 0; i < values.size(); ++i) copy_box(out, values[i], stored.boxes[i], true);
  return out;
}

void write_parts(const StoredParts& stored, const HostArray& value) {
  std::vector<HostArray> values;
  for (const Box& box : stored.boxes) {
    values.emplace_back(TensorType{stored.type.dtype, sbp::shape_of(box)});
    copy_box(value, values.back(), box, false);
  }
  stored.lock.write(values);
}

}  // namespace karez
