// What results depend on beside the program: the libraries that kernels call, and the instructions that they choose.
#pragma once

#include <string>

namespace karez::kernels {

// A line each, "name = version": two processes whose lines are equal compute the same bits of the same calls.
std::string library_versions();

std::string onednn_version();  // and its instructions, which DNNL_MAX_CPU_ISA may limit

}  // namespace karez::kernels
