// The dependencies of results besides the program: the libraries that kernels call, and the instructions that they use.
#pragma once

#include <string>
#include <string_view>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// One line each, "name = version": two processes with equal lines compute the same bits for the same calls.
std::string library_versions();

std::string onednn_version();  // with its instructions

// Limits Highway's kernels and oneDNN to device::instruction_limit(). Has an effect once per process, before the first
// kernel is chosen: cpu_kernels() and library_versions() call it. If ONEDNN_MAX_CPU_ISA (or DNNL_MAX_CPU_ISA) is set,
// oneDNN obeys only that.
void limit_instructions();
void limit_onednn(std::string_view isa);  // the part for oneDNN

}  // namespace karez::kernels
