// Defines the sizes, the number of samples and the output format that bench_all_reduce and its peers share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bench/namespace.h"

namespace karez::bench {

// Returns the sizes to measure, in bytes of the unsplit tensor. This is the operand of an all_reduce, reduce_scatter or
// all_to_all, or the result of an all_gather.
inline std::vector<std::int64_t> collective_sizes(int members) {
  std::vector<std::int64_t> out;
  const std::int64_t unit =
      std::int64_t{4} * members * members;  // so that each member's part can be divided equally too
  for (std::int64_t bytes :
       {4, 64, 1 << 10, 8 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20})
    out.push_back((bytes + unit - 1) / unit * unit);
  return out;
}

inline constexpr std::string_view collective_kinds[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"};

inline int sample_count(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>((std::int64_t{96} << 20) / bytes, 7, 400));
}
inline int warm_up_count(int samples) { return std::min(samples, 10); }

// Prints the median over samples of the slowest member's microseconds; `slowest_times` is in any order.
inline void print_row(std::string_view kind, std::int64_t bytes, std::vector<double> slowest_times) {
  std::sort(slowest_times.begin(), slowest_times.end());
  std::printf("{\"kind\": \"%.*s\", \"bytes\": %lld, \"us\": %.3f, \"least\": %.3f}\n", static_cast<int>(kind.size()),
              kind.data(), static_cast<long long>(bytes), slowest_times[slowest_times.size() / 2],
              slowest_times.front());
  std::fflush(stdout);
}

}  // namespace karez::bench
