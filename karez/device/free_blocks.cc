// Keeps freed blocks in the order in which they were freed, and finds them by size.
#include "karez/device/free_blocks.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "karez/base/error.h"

namespace karez::device {

FreeBlocks::~FreeBlocks() { clear(); }

std::int64_t FreeBlocks::capacity(std::int64_t bytes) {
  if (bytes < min_bytes) return round_up(std::max<std::int64_t>(bytes, 1), 64);
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
  return round_up(bytes, power / 8);
}

std::byte* FreeBlocks::take(std::int64_t bytes) {
  if (bytes < min_bytes) return nullptr;
  std::lock_guard lock(mutex_);
  const auto found = by_size_.find(capacity(bytes));
  if (found == by_size_.end()) return nullptr;
  const Blocks::iterator block = found->second.back();  // kept last, so most likely in a cache
  found->second.pop_back();
  if (found->second.empty()) by_size_.erase(found);
  std::byte* data = block->data;
  bytes_ -= block->bytes;
  blocks_.erase(block);
  return data;
}

void FreeBlocks::keep(std::byte* data, std::int64_t bytes, std::int64_t bytes_in_use) {
  std::lock_guard lock(mutex_);
  if (bytes < min_bytes) {
    std::free(data);
  } else {
    const std::int64_t size = capacity(bytes);
    by_size_[size].push_back(blocks_.insert(blocks_.end(), {data, size}));
    bytes_ += size;
  }
  free_first(std::max(max_bytes, bytes_in_use / 2));
}

void FreeBlocks::clear() {
  std::lock_guard lock(mutex_);
  free_first(0);
}

std::int64_t FreeBlocks::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void FreeBlocks::free_first(std::int64_t limit) {
  while (bytes_ > limit) {
    const auto same_size = by_size_.find(blocks_.front().bytes);
    same_size->second.pop_front();  // the first of its size too
    if (same_size->second.empty()) by_size_.erase(same_size);
    std::free(blocks_.front().data);
    bytes_ -= blocks_.front().bytes;
    blocks_.pop_front();
  }
}

}  // namespace karez::device
