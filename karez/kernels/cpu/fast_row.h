// Fast kernels that oneDNN and Highway do not run: copies, selection of rows by index, integer arithmetic, and images.
#pragma once

#include <string>
#include <vector>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

std::vector<KernelRow> fast_along_rows();    // take_along, add_along
std::vector<KernelRow> fast_copy_rows();     // copy, pad
std::vector<KernelRow> fast_index_rows();    // gather, scatter_add, one_hot
std::vector<KernelRow> fast_integer_rows();  // pointwise on integers
std::vector<KernelRow> fast_resize_rows();   // resize, resize_grad
std::vector<KernelRow> fast_sort_rows();     // sort

// Makes a row named "fast.<op>", with a higher rank than the plain row.
KernelRow fast_row(std::string op, std::function<bool(const CallSpec&)> supports,
                   std::function<PreparedKernel(const CallSpec&)> prepare);

}  // namespace karez::kernels
