// Compute rates by class and size of work.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "karez/sbp/namespace.h"

namespace karez::sbp {

// The class of a node's work; each has its own rates.
enum class WorkClass { none, matmul, conv, conv_input, conv_weight, memory, reduce, pool, index, move, update };

// The work of one device in a call.
struct Work {
  WorkClass work = WorkClass::memory;
  // For matrix products and convolutions: floating-point operations. Otherwise: evaluations of functions such as e^x.
  double flops = 0;
  double bytes = 0;  // bytes read and written
  // For a matrix product, the minimum of m, n and k; for a convolution, the number of channels of its result. If this
  // number is small, the vector registers are only partly used.
  double min_extent = 0;
};

// Each rate is for a class and a size of work:
//   matmul                         operations/s   .vector (min_extent < 4), .thin (< 16), .small (at most 2^20
//                                                 operations), .square
//   conv, conv_input, conv_weight  operations/s   .few (min_extent <= 4), .some (<= 8), .many
//   pointwise, reduce, pool, index, move, update
//                                  bytes/s        .l1 (at most 32 KiB), .l2 (1 MiB), .l3 (16 MiB), .memory
//   functions                      evaluations/s  e^x, tanh, ... of one element
inline constexpr std::size_t rate_count = 38, functions_rate = rate_count - 1;
std::string_view rate_name(std::size_t rate);  // "matmul.square"
std::size_t find_rate(std::string_view name);  // rate_count if no rate has this name
std::size_t rate_of(const Work& work);         // rate_count for WorkClass::none

using Rates = std::array<double, rate_count>;  // 0 if unknown

// The rates of a processor with the instruction set `isa` and `team` threads per call.
struct RateSet {
  std::string isa;  // "avx512", see karez/device/processor.h
  int team = 1;
  Rates rates = {};
  bool operator==(const RateSet&) const = default;
};

}  // namespace karez::sbp
