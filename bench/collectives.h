// Shared by bench_all_reduce and its peers: the sizes, the number of samples, and the output of results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bench/namespace.h"

namespace karez::bench {

// Bytes of the whole tensor: the operand of an all_reduce, reduce_scatter or all_to_all, and the result of an
// all_gather.
inline std::vector<std::int64_t> collective_sizes(int members) {
  std::vector<std::int64_t> out;
  const std::int64_t unit = std::int64_t{4} * members * members;  // so that parts of parts have equal sizes
  for (std::int64_t bytes :
       {4, 64, 1 << 10, 8 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20})
    out.push_back((bytes + unit - 1) / unit * unit);
  return out;
}

inline constexpr std::string_view collective_kinds[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"};

inline int samples_of(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>((std::int64_t{96} << 20) / bytes, 7, 400));
}
inline int warm_up_of(int samples) { return std::min(samples, 10); }

// The median over samples of the slowest member's microseconds; `slowest` is in any order.
inline void print_row(std::string_view kind, std::int64_t bytes, std::vector<double> slowest) {
  std::sort(slowest.begin(), slowest.end());
  std::printf("{\"kind\": \"%.*s\", \"bytes\": %lld, \"us\": %.3f, \"least\": %.3f}\n", static_cast<int>(kind.size()),
              kind.data(), static_cast<long long>(bytes), slowest[slowest.size() / 2], slowest.front());
  std::fflush(stdout);
}

}  // namespace karez::bench
