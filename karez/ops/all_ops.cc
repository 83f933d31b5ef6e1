// Composes the table of all ops from the rows of each file.
#include "karez/ops/all_ops.h"

#include <iterator>

#include "karez/ops/op_rows.h"

namespace karez::ops {

std::vector<OpDef> all_op_rows() {
  std::vector<OpDef> rows;
  for (auto family : {source_ops,    constant_ops, pointwise_ops, matmul_ops, conv2d_ops,   pool_ops,      reduce_ops,
                      broadcast_ops, reshape_ops,  transpose_ops, slice_ops,  gather_ops,   axis_ops,      index_ops,
                      scan_ops,      update_ops,   assign_ops,    box_ops,    transfer_ops, microbatch_ops}) {
    auto family_rows = family();
    rows.insert(rows.end(), std::make_move_iterator(family_rows.begin()), std::make_move_iterator(family_rows.end()));
  }
  return rows;
}

OpTable all_ops() { return OpTable(all_op_rows()); }

}  // namespace karez::ops
