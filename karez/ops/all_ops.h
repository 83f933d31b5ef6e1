// The table of all ops.
#pragma once

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// All ops of this component, by name. A user's own op is one more row: OpTable({all_op_rows()..., mine}).
OpTable all_ops();
std::vector<OpDef> all_op_rows();

}  // namespace karez::ops
