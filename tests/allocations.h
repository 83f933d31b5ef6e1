// Records the sizes of the blocks aligned to 64 bytes that a hook of malloc reports while recording is on.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "tests/namespace.h"

namespace karez::tests {

// Called by the hook of malloc, so no member allocates, and `note` may run on any thread.
class BlockSizes {
 public:
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  static constexpr bool is_active = true;
#else
  static constexpr bool is_active = false;  // sanitizers have their own malloc
#endif
  void begin() {
    count_ = 0;
    on_ = true;
  }
  void end() { on_ = false; }
  void note(std::size_t bytes, std::size_t alignment) noexcept {
    if (alignment != 64 || !on_.load(std::memory_order_relaxed)) return;
    const std::size_t at = count_.fetch_add(1);
    if (at < bytes_.size()) bytes_[at] = bytes;
  }
  std::size_t count() const { return count_; }
  std::size_t operator[](std::size_t i) const { return bytes_.at(i); }

 private:
  std::atomic<bool> on_{false};
  std::atomic<std::size_t> count_{0};
  std::array<std::size_t, 4096> bytes_{};
};
inline BlockSizes block_sizes;

}  // namespace karez::tests
