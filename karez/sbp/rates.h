// Rates by the kind of work and its size: which there are, and those of one processor.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "karez/sbp/namespace.h"

namespace karez::sbp {

// What kind of work a node is; each has rates.
enum class WorkClass { none, matmul, conv, conv_input, conv_weight, memory, reduce, pool, index, move, update };

// What one device does in a call.
struct Work {
  WorkClass work = WorkClass::memory;
  double flops =
      0;  // of products; elsewhere evaluations of functions (e^x, tanh, ...), where 0 leaves the bytes alone to count
  double bytes = 0;       // read and written
  double min_extent = 0;  // of a product the least of m, n and k; of a convolution the channels that it makes: few of
                          // them leave vectors empty
};

// A rate is of a kind of work and a size:
//   matmul        .vector (least < 4), .thin (< 16), .small (at most 2^20 operations), .square      operations a second
//   conv, conv_input, conv_weight     .few (least <= 4), .some (<= 8), .many                        operations a second
//   pointwise, reduce, pool, index, move, update     .l1 (at most 32 KiB), .l2 (1 MiB), .l3 (16 MiB), .memory bytes a
//   second functions     e^x, tanh, ... of one element each                                                a second
inline constexpr std::size_t rate_count = 38, functions_rate = rate_count - 1;
std::string_view rate_name(std::size_t rate);  // "matmul.square"
std::size_t find_rate(std::string_view name);  // rate_count: there is none
std::size_t rate_of(const Work& work);         // rate_count: nothing is done

using Rates = std::array<double, rate_count>;  // 0: not known

// What processors of these instructions reach with so many threads a call.
struct RateSet {
  std::string isa;  // "avx512", see karez/device/processor.h
  int team = 1;
  Rates rates = {};
  bool operator==(const RateSet&) const = default;
};

}  // namespace karez::sbp
