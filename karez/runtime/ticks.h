// The processor's tick counter. Reading it takes a few ns; reading the system clock takes about 20 ns. Events are
// recorded in ticks and converted to ns when they are read.
#pragma once

#include <chrono>
#include <cstdint>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Counts at a constant rate, equally on all cores (invariant TSC on x86, the generic timer on Arm).
inline std::int64_t ticks() {
#if defined(__x86_64__) || defined(__i386__)
  return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
  std::int64_t count;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return std::chrono::steady_clock::now().time_since_epoch().count();
#endif
}

// Converts ticks to ns since the creation of this object. The rate is measured from then to the present.
class TickScale {
 public:
  TickScale() : ticks_(ticks()), time_(std::chrono::steady_clock::now()) {}
  double ns_per_tick() const {
    double passed = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - time_).count();
    std::int64_t counted = ticks() - ticks_;
    return counted > 0 ? passed / static_cast<double>(counted) : 1.0;
  }
  std::int64_t ns(std::int64_t at, double ns_per_tick) const {
    return static_cast<std::int64_t>(static_cast<double>(at - ticks_) * ns_per_tick);
  }

 private:
  std::int64_t ticks_;
  std::chrono::steady_clock::time_point time_;
};

}  // namespace karez::runtime
