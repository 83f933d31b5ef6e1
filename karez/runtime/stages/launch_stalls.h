// How long devices waited for data before the launches of one plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

#include "karez/base/text.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/stages/stall_report.h"

namespace karez::runtime {

// Any thread may call the functions.
class LaunchStalls {
 public:
  // A launch was made at `now`, in ticks, after devices had waited for this long since the launch before it.
  void add(std::int64_t now, std::int64_t stall) {
    std::lock_guard lock(mutex_);
    if (launches_ == 0) first_ = now;
    else total_ += stall;
    recent_[static_cast<std::size_t>(launches_++) % recent_.size()] = stall;
    last_ = now;
  }
  // "the devices waited for data for 0.300 s of 12.100 s (2.5 %) in 200 launches, before the last ones for 0.0, 5.1
  // ms"; empty before the second launch.
  std::string text(double seconds_per_tick) const {
    std::lock_guard lock(mutex_);
    if (launches_ < 2) return "";
    std::string numbers;
    const auto count = static_cast<std::int64_t>(recent_.size());
    for (std::int64_t i = launches_ > count ? launches_ - count : 1; i < launches_; ++i) {
      char number[32];
      std::snprintf(number, sizeof number, "%.1f",
                    static_cast<double>(recent_[static_cast<std::size_t>(i % count)]) * seconds_per_tick * 1e3);
      numbers += base::cat(numbers.empty() ? "" : ", ", number);
    }
    return base::cat(stall_text(static_cast<double>(total_) * seconds_per_tick,
                                static_cast<double>(last_ - first_) * seconds_per_tick),
                     " in ", launches_, " launches, before the last ones for ", numbers, " ms");
  }

 private:
  mutable std::mutex mutex_;
  std::int64_t launches_ = 0, first_ = 0, last_ = 0, total_ = 0;
  std::array<std::int64_t, 10> recent_ = {};
};

}  // namespace karez::runtime
