// The time that a rank has spent, by phase. The control compares the times of the ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "karez/runtime/namespace.h"

namespace karez::runtime {

enum class Phase { kernels, source, host };  // host: the time of the program while no launch runs
inline constexpr int phases = 3;

// The time that a rank has spent since its world began.
struct RankTime {
  std::array<double, phases> seconds = {};
  std::uint64_t work = 0;  // hash of the work in this launch; ranks with different work (stages) are not compared
  double& operator[](Phase phase) { return seconds[static_cast<std::size_t>(phase)]; }
};

}  // namespace karez::runtime
