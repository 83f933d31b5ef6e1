// The straggler detector finds slow ranks from the time that each rank spent in each launch, without waits. It has no
// thread or clock.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

enum class Phase { kernels, source, host };  // host: the program between launches, while none runs
inline constexpr int phases = 3;
std::string_view name_of(Phase phase);  // "kernels", "sources", "program between launches"

// The time that a rank has spent since its world began.
struct RankTime {
  std::array<double, phases> seconds = {};
  std::uint64_t work = 0;  // hash of the work in this launch; ranks with different work (stages) are not compared
  double& operator[](Phase phase) { return seconds[static_cast<std::size_t>(phase)]; }
};

struct SlowRank {
  int rank = 0;
  Phase phase = Phase::kernels;
  double seconds = 0, others = 0;  // per launch, means over `consecutive_launches`; others: the medians
};

// A rank is slow if it spent `slowdown_factor` times as long as the median of the others and `min_excess_seconds` more
// in each of `consecutive_launches` launches. It is reported once for each phase.
class StragglerDetector {
 public:
  explicit StragglerDetector(int ranks)
      : before_(static_cast<std::size_t>(ranks)),
        counts_(static_cast<std::size_t>(ranks)) {}

  // A launch has ended on all ranks; `now` has their reports by rank. Returns the ranks that are newly found slow.
  std::vector<SlowRank> launch(const std::vector<RankTime>& now);

  static constexpr double slowdown_factor = 4, min_excess_seconds = 1e-3;
  static constexpr int consecutive_launches = 5;

 private:
  struct Count {
    int slow = 0;
    double seconds = 0, others = 0;
    bool told = false;
  };

  std::vector<RankTime> before_;
  std::vector<std::array<Count, phases>> counts_;
  bool begun_ = false;
};

}  // namespace karez::runtime
