// A device's memory: blocks that free themselves, and counters of the bytes in use and their peak.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "karez/device/namespace.h"

namespace karez::device {

// Bytes in use by all blocks that share these counters. Blocks may be freed on other threads.
struct MemoryCounters {
  std::atomic<std::int64_t> current{0}, peak{0};
  void add(std::int64_t bytes);
};

// One block, aligned to 64 bytes. Its counters live as long as any block of them.
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

// Zeroed host memory, counted with the requested bytes. Out of memory is an error with the bytes requested and the
// bytes in use.
Memory allocate_host(std::int64_t bytes, std::shared_ptr<MemoryCounters> counters);

// Fills unused memory with values that no correct program reads: NaN in f32 and f64, negative as an index, neither 0
// nor 1 as a bool. `data` is aligned to 4 bytes.
void poison(std::byte* data, std::int64_t bytes);

}  // namespace karez::device
