// How much of the time of a data stage's acts is spent computing: whether the stage is bound by the CPU or by IO.
#pragma once

#include <optional>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Acts of the last seconds have the most weight.
class CpuShare {
 public:
  // Whether the next act should be measured: one in `interval` (ActCosts::measure_interval).
  bool is_due(int interval) {
    if (++unmeasured_ < interval) return false;
    unmeasured_ = 0;
    return true;
  }
  // An act of `seconds`, and the part of it in which its thread computed.
  void add(double computing, double seconds) {
    computing_ += computing < seconds ? computing : seconds;  // two clocks
    seconds_ += seconds;
    if (seconds_ > 4) seconds_ /= 2, computing_ /= 2;
  }
  // From 0 to 1; nothing before the first act that was measured.
  std::optional<double> share() const { return seconds_ > 0 ? std::optional(computing_ / seconds_) : std::nullopt; }

 private:
  int unmeasured_ = 0;  // acts since the last one that was due
  double computing_ = 0, seconds_ = 0;
};

}  // namespace karez::runtime
