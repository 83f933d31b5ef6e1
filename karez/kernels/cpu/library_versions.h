// What results depend on besides the program: the libraries that kernels call, and the instructions that they choose.
#pragma once

#include <string>
#include <string_view>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// A line each, "name = version": two processes whose lines are equal compute the same bits of the same calls.
std::string library_versions();

std::string onednn_version();  // and its instructions

// Keeps Highway's kernels and oneDNN's within device::instruction_limit(). Once a process, before the first kernel is
// chosen: by cpu_kernels() and by library_versions(). Where ONEDNN_MAX_CPU_ISA (or DNNL_MAX_CPU_ISA) is set, oneDNN
// obeys that alone.
void limit_instructions();
void limit_onednn(std::string_view isa);  // its part

}  // namespace karez::kernels
