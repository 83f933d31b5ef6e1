// Allocates values on devices and copies them to the host.
#include "karez/runtime/device_value.h"

#include <algorithm>

#include "karez/base/text.h"
#include "karez/runtime/actor/host_copy.h"

namespace karez::runtime {
namespace {

HostArray copy_shard(const DeviceValue& value, std::size_t i) {
  const ShardLayout::Shard& part = value.layout->shards[i];
  HostArray out(part.view.type());
  part.device->read(out.bytes(), value.memory[i].data(), part.view.bytes());
  return out;
}

// Returns a view of the part of the whole value that a shard covers, and sets `offset` to the part's byte offset.
View window_on(const View& whole, const ShardLayout::Shard& part, std::int64_t& offset) {
  offset = offset_of(part.begin, whole.strides) * size_of(whole.dtype);
  return {whole.dtype, part.view.shape, whole.strides};
}

bool is_replica(const std::vector<ShardLayout::Shard>& parts, std::size_t i) {
  return std::any_of(
      parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i),
      [&](const ShardLayout::Shard& other) { return other.begin == parts[i].begin && other.view == parts[i].view; });
}

}  // namespace

DeviceValue::DeviceValue(std::shared_ptr<const ShardLayout> value_layout, bool poisoned)
    : layout(std::move(value_layout)) {
  memory.reserve(layout->shards.size());
  for (const ShardLayout::Shard& part : layout->shards) {
    memory.push_back(part.device->allocate_value(part.view.bytes()));
    if (poisoned) poison(memory.back().data(), memory.back().bytes());
  }
}

HostArray gather_shards(const DeviceValue& value) {
  const auto& parts = value.layout->shards;
  if (parts[0].view.shape == value.layout->type.shape) return copy_shard(value, 0);
  HostArray out(value.layout->type);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (is_replica(parts, i)) continue;
    const HostArray part = copy_shard(value, i);
    std::int64_t offset = 0;
    const View window = window_on(out.view(), parts[i], offset);
    copy_tensor(out.bytes() + offset, window, part.bytes(), part.view());
  }
  return out;
}

std::vector<HostArray> copy_shards(const DeviceValue& value) {
  std::vector<HostArray> out;
  for (std::size_t i = 0; i < value.memory.size(); ++i) out.push_back(copy_shard(value, i));
  return out;
}

std::string print(const ShardLayout& layout) {
  return join(layout.shards, ", ", [&](const ShardLayout::Shard& part) {
    std::vector<std::string> ranges;
    for (std::size_t d = 0; d < part.begin.size(); ++d)
      ranges.push_back(cat(part.begin[d], ":", part.begin[d] + part.view.shape[d]));
    const bool whole = part.view.shape == layout.type.shape;
    return cat(whole ? "whole" : cat("[", join(ranges, ", "), "]"), " on device ", part.place.rank, ".",
               part.place.device);
  });
}

}  // namespace karez::runtime
