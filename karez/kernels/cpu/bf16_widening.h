// Products of bf16 operands for processors on which a library has no bf16 products: the operands are widened to f32,
// the f32 row runs, and the result is rounded.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Returns a row "<row>_widened" for each f32 row of a matrix product or convolution. These rows rank below every row
// that supports bf16 itself, and above the plain rows.
std::vector<KernelRow> bf16_widening_rows();
bool is_widened(std::string_view kernel);

// Convert bf16 to f32, which is exact, and f32 to the nearest bf16, with ties to even, as tensor::Bf16 does. NaN
// remains NaN. Both are defined in hwy_pointwise.cc.
void widen_bf16(const std::uint16_t* from, float* to, std::int64_t count);
void round_to_bf16(const float* from, std::uint16_t* to, std::int64_t count);

}  // namespace karez::kernels
