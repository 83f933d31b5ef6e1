// The versions of the libraries that kernels call and the instruction sets that they use; results depend on both.
#pragma once

#include <string>
#include <string_view>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Returns a line "name = version" for each library. Two processes with equal lines compute the same bits for the same
// calls.
std::string library_versions();

std::string onednn_version();  // with its instruction set

// Limits Highway's kernels and oneDNN to device::instruction_limit(). Only the first call in a process has an effect;
// cpu_kernels() and library_versions() call it before a kernel is chosen. If ONEDNN_MAX_CPU_ISA (or DNNL_MAX_CPU_ISA)
// is set, oneDNN follows this variable instead.
void limit_instructions();
void limit_onednn(std::string_view isa);  // called by limit_instructions() for oneDNN

}  // namespace karez::kernels
