// The fast f32 kernels, one list per file: `supports` decides which calls they run; all other calls run on the plain
// rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

std::vector<KernelRow> onednn_rows();         // matmul, conv2d, avg_pool and their gradients
std::vector<KernelRow> hwy_conv_rows();       // conv2d with one input channel
std::vector<KernelRow> hwy_pointwise_rows();  // pointwise
std::vector<KernelRow> hwy_pool_rows();       // max_pool, max_pool_grad
std::vector<KernelRow> hwy_reduce_rows();     // reduce_sum, reduce_max, reduce_min
std::vector<KernelRow> hwy_update_rows();     // sgd, adam, sgd_if, adam_if
std::vector<KernelRow> hwy_random_rows();     // random_uniform

// Returns oneDNN's name of the implementation that runs this call; "" if no fast one does. For tests and benchmarks.
std::string onednn_implementation(const CallSpec& call);
// Copies bytes with a team, to measure memory bandwidth.
void copy_bytes(int team, std::byte* to, const std::byte* from, std::int64_t bytes);

}  // namespace karez::kernels
