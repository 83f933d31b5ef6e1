// How long the acts of a data stage take: whether waking a thread for one would cost more than the act.
#pragma once

#include <algorithm>
#include <cstdint>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

// A stage is short if its acts took less than a limit on average, and if it spent at most an eighth of its time in acts
// of more than four times the limit. So a stage that reads a file once in thousand short acts is not short. Older acts
// have less weight: the weights are halved every 1,024 acts.
class ActCosts {
 public:
  explicit ActCosts(std::int64_t limit) : limit_(limit) {}  // in any unit of time

  void add(std::int64_t time) {
    ++count_, total_ += time;
    if (is_long(time)) long_acts_ += time;
    if (count_ < 1024) return;
    count_ /= 2, total_ /= 2, long_acts_ /= 2;
  }
  bool is_long(std::int64_t time) const { return time > 4 * limit_; }  // of one act; any thread may call it
  bool is_short() const { return count_ >= 16 && total_ < limit_ * count_ && long_acts_ * 8 <= total_; }
  // How the time on a core is measured: of one act in so many, because to measure takes about half of the limit. At
  // most 64, so that the share of short acts is known soon.
  int measure_interval() const {
    if (count_ < 16) return 1;
    return static_cast<int>(std::clamp<std::int64_t>(16 * limit_ * count_ / std::max<std::int64_t>(total_, 1), 1, 64));
  }

 private:
  std::int64_t limit_;
  std::int64_t count_ = 0, total_ = 0;
  std::int64_t long_acts_ = 0;  // the part of total_ in acts of more than four times the limit
};

}  // namespace karez::runtime
