// The straggler detector finds slow ranks by the time that each rank spent in each launch, not counting waits. It has
// no thread or clock.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "karez/control/namespace.h"
#include "karez/runtime/rank_time.h"

namespace karez::control {

std::string_view name_of(Phase phase);  // "kernels", "sources", "program between launches"

struct SlowRank {
  int rank = 0;
  Phase phase = Phase::kernels;
  // The time of this rank and the median time of the other ranks: means over `consecutive_launches` launches.
  double seconds = 0, others_median = 0;
};

// A rank is slow if it spent at least `slowdown_factor` times the median of the other ranks plus `min_excess_seconds`
// in each of `consecutive_launches` launches in a row. It is reported once for each phase.
class StragglerDetector {
 public:
  explicit StragglerDetector(int ranks)
      : previous_(static_cast<std::size_t>(ranks)),
        counts_(static_cast<std::size_t>(ranks)) {}

  // Call when a launch has ended on all ranks. `times` has the report of each rank, by rank. Returns the ranks that are
  // found slow in a phase for the first time.
  std::vector<SlowRank> launch(const std::vector<RankTime>& times);

  static constexpr double slowdown_factor = 4, min_excess_seconds = 1e-3;
  static constexpr int consecutive_launches = 5;

 private:
  struct Count {
    int slow = 0;
    double seconds = 0, others_median = 0;
    bool reported = false;
  };

  std::vector<RankTime> previous_;
  std::vector<std::array<Count, phases>> counts_;
  bool has_previous_ = false;
};

}  // namespace karez::control
