// Who is slow: from what each rank spent by itself in each launch, not counting what it waited. No thread, no clock.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

enum class Phase { kernels, source, host };  // host: the program between launches, while none was under way
inline constexpr int phases = 3;
std::string_view name_of(Phase phase);  // "kernels", "sources", "program between launches"

// What a rank has spent since its world began.
struct RankTime {
  std::array<double, phases> seconds = {};
  std::uint64_t work =
      0;  // what it does in the launch that ended: ranks that do something else (other stages) are not compared in it
  double& operator[](Phase phase) { return seconds[static_cast<std::size_t>(phase)]; }
};

struct SlowRank {
  int rank = 0;
  Phase phase = Phase::kernels;
  double seconds = 0,
         others = 0;  // a launch, on average of the last `consecutive_launches`; of the others the middle one's
};

// A rank is slow if it spent `times` as much as the others and `least` more in each of `consecutive_launches` launches.
// It is told once for each phase.
class StragglerDetector {
 public:
  explicit StragglerDetector(int ranks)
      : before_(static_cast<std::size_t>(ranks)),
        counts_(static_cast<std::size_t>(ranks)) {}

  // A launch has ended on all ranks; by rank, what they say then.
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
