// Reports the memory for registers and scratch in the plans of train_step's models, relative to the live values.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "bench/namespace.h"
#include "bench/parallel_config.h"
#include "karez/plan/live_bytes.h"

namespace karez::bench {

// One row per model and mesh, for the device with the largest ratio.
struct ArenaUsage {
  std::int64_t peak = 0;   // bytes of registers and scratch
  std::int64_t live = 0;   // bytes of the live values of one launch
  std::int64_t ahead = 0;  // bytes added by launches that run ahead
  double ratio() const { return static_cast<double>(peak) / static_cast<double>(live); }
};

inline constexpr double max_over_live = 1.05;

template <class Model>
ArenaUsage arena_of(const char* name, const ParallelConfig& s, const Shape& x, DType dtype, std::int64_t labels) {
  const auto begin = std::chrono::steady_clock::now();
  const PlannedStep<Model> planned(s, {dtype, x}, labels);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();  // includes tracing
  const Plan& plan = planned.step.plan();
  const auto peak = plan::arena_bytes(plan), live = plan::live_bytes(plan), ahead = plan::run_ahead_bytes(plan);
  ArenaUsage max_usage;
  for (plan::DeviceId d : plan.devices.ids())
    if (ArenaUsage usage{peak[d], live[d], ahead[d]}; max_usage.live == 0 || usage.ratio() > max_usage.ratio())
      max_usage = usage;
  double packing = 0;
  for (const PassTime& pass : planned.step.passes())
    if (pass.name == "memory") packing = pass.seconds;
  std::printf("%-6s %-16s %5d %12lld %12lld %12lld %8.3f %9.2f %9.2f\n", name, s.axes[0] == 0 ? "one device" : s.axes,
              s.microbatches, static_cast<long long>(max_usage.peak), static_cast<long long>(max_usage.live),
              static_cast<long long>(max_usage.ahead), max_usage.ratio(), seconds, packing);
  std::fflush(stdout);
  return max_usage;
}

inline std::vector<ArenaUsage> arena_usage_of(const ParallelConfig& s) {
  return {arena_of<Mlp>("mlp", s, {64, 1, 28, 28}, DType::f32, 64),
          arena_of<Cnn>("cnn", s, {64, 1, 28, 28}, DType::f32, 64),
          arena_of<Gpt>("gpt", s, {64, 64}, DType::i32, 64 * 64)};
}

// Returns exit code 1 if a ratio is above 1.05. Pipelines and micro-batches have no target, because their acts overlap,
// which the bound does not include.
inline int pack_models() {
  std::printf("%-6s %-16s %5s %12s %12s %12s %8s %9s %9s\n", "model", "mesh", "parts", "peak, bytes", "live", "ahead",
              "ratio", "compile s", "memory s");
  double max_ratio = 0;
  for (const char* axes : {"", "data=2,model=2"})
    for (const ArenaUsage& a : arena_usage_of({axes})) max_ratio = std::max(max_ratio, a.ratio());
  for (const ParallelConfig& s : {ParallelConfig{"", 1, 4}, ParallelConfig{"data=2,model=2", 1, 4},
                                  ParallelConfig{"stage=2", 2, 4}, ParallelConfig{"stage=2,data=2", 2, 4}})
    arena_usage_of(s);
  std::printf(
      "memory: worst ratio %.3f of registers and scratch over one launch's values without micro-batches (target "
      "%.2f)\n",
      max_ratio, max_over_live);
  return max_ratio > max_over_live ? 1 : 0;
}

}  // namespace karez::bench
