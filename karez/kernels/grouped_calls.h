// Groups: one call that runs several independent calls of one kernel with equal views.
#pragma once

#include <cstdint>

#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Whether the row supports a call, or each call of a group.
bool is_supported(const KernelRow& row, const CallSpec& call);
// The workspace of a call, in bytes; that of a group has a part for each thread.
std::int64_t workspace_of(const KernelRow& row, const CallSpec& call);

// Prepares a group. A row that supports the group as one call runs it. Otherwise each thread of its team runs about as
// many calls as the others, one after the other. Products are divided by rows, so the number of calls need not be a
// multiple of the number of threads.
PreparedKernel prepare_group(const KernelRow& row, const CallSpec& group);

}  // namespace karez::kernels
