// The table of all ops.
#pragma once

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// Return all ops of this component, as a table and as rows. To add an op, make an OpTable of these rows and one more.
OpTable all_ops();
std::vector<OpDef> all_op_rows();

}  // namespace karez::ops
