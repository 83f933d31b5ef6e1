// The time during which a session has no launch.
#pragma once

#include <atomic>
#include <cstdint>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Counts from the end of the first launch. `launched` and `ended` are called by one thread at a time; any thread may
// call the other functions. Times are ticks, or any other unit.
class IdleClock {
 public:
  // A launch was made, or all launches have ended.
  void launched(std::int64_t now) {
    launches_.store(launches_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (is_idle(state_.load(std::memory_order_relaxed))) state_.store(2 * idle(now), std::memory_order_relaxed);
  }
  void ended(std::int64_t now) {
    const std::int64_t state = state_.load(std::memory_order_relaxed);
    if (!is_idle(state)) state_.store(2 * (now - state / 2) + 1, std::memory_order_relaxed);
  }

  // The time without a launch until now.
  std::int64_t idle(std::int64_t now) const {
    const std::int64_t state = state_.load(std::memory_order_relaxed);
    return is_idle(state) ? now - (state - 1) / 2 : state / 2;
  }
  bool has_launch() const { return !is_idle(state_.load(std::memory_order_relaxed)) && launches() > 0; }
  std::int64_t launches() const { return launches_.load(std::memory_order_relaxed); }  // made so far

 private:
  static bool is_idle(std::int64_t state) { return state % 2 != 0; }
  // One number, so that a reader sees a consistent state. While there are launches: twice the idle time. While there
  // are none: twice the time at which the session would have become idle if it had not been idle before, plus 1.
  std::atomic<std::int64_t> state_{0};
  std::atomic<std::int64_t> launches_{0};
};

}  // namespace karez::runtime
