// Bytes on devices for a value that the user keeps, and the ways back to the host.
#include "karez/runtime/held.h"

#include <algorithm>

#include "karez/base/text.h"
#include "karez/runtime/host_copy.h"

namespace karez::runtime {
namespace {

HostArray part_of(const Held& held, std::size_t i) {
  const Spread::Part& part = held.spread->parts[i];
  HostArray out(part.view.type());
  part.device->read(out.bytes(), held.memory[i].data(), part.view.bytes());
  return out;
}

// The rows of the whole that a part is.
View window_on(const View& whole, const Spread::Part& part, std::int64_t& offset) {
  offset = offset_of(part.begin, whole.strides) * size_of(whole.dtype);
  return {whole.dtype, part.view.shape, whole.strides};
}

bool seen_before(const std::vector<Spread::Part>& parts, std::size_t i) {
  return std::any_of(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(i), [&](const Spread::Part& other) {
    return other.begin == parts[i].begin && other.view == parts[i].view;
  });
}

}  // namespace

Held::Held(std::shared_ptr<const Spread> how, bool poisoned) : spread(std::move(how)) {
  memory.reserve(spread->parts.size());
  for (const Spread::Part& part : spread->parts) {
    memory.push_back(part.device->allocate_value(part.view.bytes()));
    if (poisoned) poison(memory.back().data(), memory.back().bytes());
  }
}

HostArray whole_of(const Held& held) {
  const auto& parts = held.spread->parts;
  if (parts[0].view.shape == held.spread->type.shape) return part_of(held, 0);
  HostArray out(held.spread->type);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (seen_before(parts, i)) continue;
    const HostArray part = part_of(held, i);
    std::int64_t offset = 0;
    const View window = window_on(out.view(), parts[i], offset);
    copy_tensor(out.bytes() + offset, window, part.bytes(), part.view());
  }
  return out;
}

std::vector<HostArray> parts_of(const Held& held) {
  std::vector<HostArray> out;
  for (std::size_t i = 0; i < held.memory.size(); ++i) out.push_back(part_of(held, i));
  return out;
}

std::string print(const Spread& spread) {
  return join(spread.parts, ", ", [&](const Spread::Part& part) {
    std::vector<std::string> ranges;
    for (std::size_t d = 0; d < part.begin.size(); ++d)
      ranges.push_back(cat(part.begin[d], ":", part.begin[d] + part.view.shape[d]));
    const bool whole = part.view.shape == spread.type.shape;
    return cat(whole ? "whole" : cat("[", join(ranges, ", "), "]"), " on device ", part.place.rank, ".",
               part.place.device);
  });
}

}  // namespace karez::runtime
