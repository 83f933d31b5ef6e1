// The lists of fast kernels that use oneDNN or Highway. Each row's `supports` decides which calls the row runs; calls
// that no fast row supports run on the plain rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

std::vector<KernelRow> onednn_rows();             // matmul, conv2d, avg_pool and their gradients
std::vector<KernelRow> hwy_axis_rows();           // arg_max, cumsum
std::vector<KernelRow> hwy_conv_rows();           // conv2d with one input channel
std::vector<KernelRow> hwy_pointwise_rows();      // pointwise
std::vector<KernelRow> hwy_pointwise_f64_rows();  // pointwise, cast
std::vector<KernelRow> hwy_pool_rows();           // max_pool, max_pool_grad
std::vector<KernelRow> hwy_reduce_rows();         // reduce_sum, reduce_max, reduce_min
std::vector<KernelRow> hwy_update_rows();         // sgd, adam, sgd_if, adam_if
std::vector<KernelRow> hwy_random_rows();         // random_uniform
std::vector<KernelRow> hwy_row_program_rows();    // row_program

// Returns oneDNN's name for the implementation that runs this call, or "" if oneDNN has no fast one. For tests and
// benchmarks.
std::string onednn_implementation(const CallSpec& call);
// Copies bytes with a team of threads; used to measure memory bandwidth.
void copy_bytes(int team, std::byte* to, const std::byte* from, std::int64_t bytes);

}  // namespace karez::kernels
