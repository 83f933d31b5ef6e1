// The table of all ops.
#pragma once

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// All ops of this component. A user's op is one more row of a table: OpTable({all_op_rows()..., user_op}).
OpTable all_ops();
std::vector<OpDef> all_op_rows();

}  // namespace karez::ops
