// Reads and writes variables: selects boxes, and copies rows of elements between a box and the whole.
#include "karez/api/state/stored_parts.h"
#include "karez/api/namespace.h"

#include <cstring>
#include <set>

#include "karez/passes/lowering/call.h"

namespace karez {
namespace {

PlanDevice plan_device(DeviceName name) { return {name.rank, name.device, "cpu"}; }

// Copies the box of a whole tensor from or to an array that holds only that box, a row of its last dimension at a time.
void copy_box(const HostArray& all, const HostArray& part, const Box& box, bool into_all) {
  const auto item = static_cast<std::size_t>(size_of(all.dtype()));
  const std::size_t row = (part.shape().empty() ? 1 : static_cast<std::size_t>(part.shape().back())) * item;
  const Shape rows(part.shape().begin(), part.shape().empty() ? part.shape().end() : part.shape().end() - 1);
  std::byte* part_row = part.bytes();
  for_each_index(rows, [&](const std::vector<std::int64_t>& index) {
    std::int64_t offset = box.empty() ? 0 : box.back().begin;
    for (std::size_t d = 0; d < index.size(); ++d) offset += (box[d].begin + index[d]) * all.view().strides[d];
    std::byte* whole_row = all.bytes() + static_cast<std::size_t>(offset) * item;
    std::memcpy(into_all ? whole_row : part_row, into_all ? part_row : whole_row, row);
    part_row += row;
  });
}

}  // namespace

StoredParts parts_of(WorldState& world, const WorldState::Key& key, const StoredVariable& variable, bool writes) {
  const TensorType& type = variable.type;
  std::set<std::vector<std::pair<std::int64_t, std::int64_t>>> seen;
  std::vector<Box> boxes;
  std::vector<std::pair<PlanDevice, View>> parts;
  for (int position = 0; position < variable.mesh.size(); ++position) {
    if (variable.mesh.devices[static_cast<std::size_t>(position)].rank != world.ranks.rank()) continue;
    Box box = local_box(type.shape, variable.mesh, variable.layout, position);
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    for (const Range& range : box) ranges.emplace_back(range.begin, range.end);
    if (empty(box) || (!seen.insert(ranges).second && !writes)) continue;
    parts.emplace_back(plan_device(variable.mesh.devices[static_cast<std::size_t>(position)]),
                       stored_view(type.dtype, sbp::shape_of(box)));
    boxes.push_back(std::move(box));
  }
  return {type, std::move(boxes), world.session.lock_variable(key_of(key.first, key.second), parts, writes)};
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
