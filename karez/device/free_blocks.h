// Freed blocks of host memory that are kept for later allocations of the same size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <unordered_map>

#include "karez/device/namespace.h"

namespace karez::device {

// New memory of the operating system costs a page fault for every page, which takes as long as several passes over the
// memory. So large blocks that are allocated and freed in every step should stay in the process. May be used by several
// threads.
class FreeBlocks {
 public:
  static constexpr std::int64_t min_bytes = 64 << 10;  // smaller blocks are not kept: malloc keeps them
  static constexpr std::int64_t max_bytes = 64 << 20;  // of all kept blocks, if few other blocks are in use

  FreeBlocks() = default;
  ~FreeBlocks();
  FreeBlocks(const FreeBlocks&) = delete;
  FreeBlocks& operator=(const FreeBlocks&) = delete;

  // The number of bytes to allocate for a block of `bytes`: rounded up by at most an eighth, so that blocks of nearly
  // the same size can replace each other.
  static std::int64_t capacity(std::int64_t bytes);

  // Returns a kept block for `bytes` bytes, aligned to 64 bytes and not initialised, or null if there is none.
  std::byte* take(std::int64_t bytes);

  // Keeps a block that std::aligned_alloc returned for capacity(bytes). Then frees the blocks that were kept first
  // until at most max_bytes, or half of `bytes_in_use` if that is more, are kept.
  void keep(std::byte* data, std::int64_t bytes, std::int64_t bytes_in_use);

  void clear();
  std::int64_t bytes() const;  // of the kept blocks

 private:
  struct Block {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  using Blocks = std::list<Block>;
  void free_first(std::int64_t limit);

  mutable std::mutex mutex_;
  Blocks blocks_;  // in the order of keep
  std::unordered_map<std::int64_t, std::deque<Blocks::iterator>> by_size_;
  std::int64_t bytes_ = 0;
};

}  // namespace karez::device
