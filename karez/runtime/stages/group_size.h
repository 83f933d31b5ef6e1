// How many elements a lane of a data stage computes together: as many as take less than a time, if each is fast.
#pragma once

#include <algorithm>
#include <cstdint>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

class GroupSize {
 public:
  explicit GroupSize(std::int64_t time) : time_(static_cast<double>(time)) {}  // in any unit

  // `count` elements were computed together in this time. Threads sometimes wait for a core or a lock, which takes less
  // time for each element if there are several, so short times have more weight.
  void add(std::int64_t time, int count) {
    const double one = static_cast<double>(time) / count;
    if (count_ < 8) ++count_;
    mean_ += (one - mean_) / (count_ < 8 ? count_ : one < mean_ ? 4 : 32);
  }
  // The number for the next group, at most `most`. It is 1 until the time of some elements is known.
  int size(int most) const {
    if (count_ < 8) return 1;
    return mean_ * most <= time_ ? most : std::max(1, static_cast<int>(time_ / mean_));
  }

 private:
  double time_;
  double mean_ = 0;  // of one element, of the last groups; long times have less weight
  int count_ = 0;    // of groups, at most 8
};

}  // namespace karez::runtime
