// Host memory for large arrays that threads allocate and other threads free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "karez/device/namespace.h"

namespace karez::device {

// Blocks of host memory. A freed block is kept for the next allocation of nearly the same size by any thread, until a
// number of allocations have not needed it. In contrast, malloc keeps the memory that each thread has freed for that
// thread alone, so a pipeline of N threads keeps the memory of N batches. May be used by several threads.
class BlockCache {
 public:
  static constexpr std::int64_t min_bytes = 64 << 10;  // smaller blocks come from malloc
  static constexpr std::int64_t max_idle = 64 << 20;   // bytes of idle blocks, or half of those in use if that is more
  static constexpr std::int64_t window = 256;          // allocations

  // Maps at most this number of blocks, so that their memory returns to the operating system when they are freed, and
  // takes further ones from malloc: a process may have about 65,000 mappings.
  explicit BlockCache(std::int64_t max_mapped = 16384);
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Returns a block of at least `bytes` bytes, at least min_bytes, aligned to 64 bytes and not initialised, or null if
  // memory runs out.
  std::byte* allocate(std::int64_t bytes);
  void free(std::byte* data, std::int64_t bytes);  // with the size that was allocated

  std::int64_t idle_bytes() const;
  std::int64_t bytes_in_use() const;

 private:
  friend struct ProcessCache;
  struct SizeClass {
    std::vector<std::byte*> idle;  // the last one was freed last
    std::size_t fewest_idle = 0;   // in this window
  };
  std::byte* new_block(std::int64_t size);
  void delete_block(std::byte* data, std::int64_t size);
  void free_idle(std::int64_t size, SizeClass& blocks, std::size_t count);
  void free_unneeded();

  mutable std::mutex mutex_;
  std::map<std::int64_t, SizeClass> classes_;
  const std::int64_t max_mapped_;
  std::int64_t mapped_ = 0;  // blocks
  std::unordered_set<std::byte*> from_malloc_;
  std::int64_t idle_bytes_ = 0, bytes_in_use_ = 0, allocations_ = 0;
};

// Allocates uninitialised bytes, aligned to 64 bytes. Large blocks come from a cache that all threads of the process
// share. Throws an error if memory runs out.
std::shared_ptr<std::byte[]> allocate_shared_bytes(std::int64_t bytes);

}  // namespace karez::device
