// Device memory: blocks that are freed by their destructors, and counters of the bytes in use and their peak.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "karez/device/namespace.h"

namespace karez::device {

class FreeBlocks;

// Counts the bytes of all blocks that share these counters. Blocks may be freed on other threads.
struct MemoryCounters {
  std::atomic<std::int64_t> current{0}, peak{0};
  void add(std::int64_t bytes);
  std::shared_ptr<FreeBlocks> free_blocks;  // where freed blocks are kept, not counted; null: nowhere
};

// A block of memory, aligned to 64 bytes. Counters live as long as the last block that shares them.
class Memory {
 public:
  Memory() = default;
  Memory(std::byte* data, std::int64_t bytes, std::shared_ptr<MemoryCounters> counters);
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  std::shared_ptr<MemoryCounters> counters_;
};

// Allocates zeroed host memory (uninitialised if the counters have `free_blocks`, from which it is taken if possible)
// and counts the requested bytes. If memory runs out, throws an error with the bytes requested and the bytes in use.
Memory allocate_host(std::int64_t bytes, std::shared_ptr<MemoryCounters> counters);

// Fills unused memory with values that no correct program reads: NaN in f32 and f64, negative as an index, neither 0
// nor 1 as a bool. `data` must be aligned to 4 bytes.
void poison(std::byte* data, std::int64_t bytes);

}  // namespace karez::device
