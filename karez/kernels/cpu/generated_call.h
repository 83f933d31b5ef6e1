// Pointwise calls that run generated code.
#pragma once

#include "karez/kernels/cpu/broadcast_pattern.h"
#include "karez/kernels/cpu/pointwise_generated.h"
#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Returns the generated kernel for the expression and the types of a call; null if there is none, or if an operand
// repeats along only one dimension.
const GeneratedPointwise* find_generated(const CallSpec& call, const BroadcastPattern& pattern);

// Prepares a generated kernel; the threads of a team share the elements.
PreparedKernel prepare_generated(const GeneratedPointwise& row, const BroadcastPattern& pattern, int team);

// Prepares a group of calls with this pattern; the threads of a team share the calls.
PreparedKernel prepare_generated_group(const GeneratedPointwise& row, const BroadcastPattern& pattern, int team,
                                       std::int64_t calls);

}  // namespace karez::kernels
