// Functions that return the rows of the op table in each file of this component; only all_ops.cc calls them.
#pragma once

#include <vector>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

std::vector<OpDef> source_ops();     // input, variable, iota, random_uniform
std::vector<OpDef> constant_ops();   // constant
std::vector<OpDef> pointwise_ops();  // every row of pointwise.cc, pointwise, cast
std::vector<OpDef> matmul_ops();
std::vector<OpDef> conv2d_ops();  // conv2d, conv2d_grad_input, conv2d_grad_weight
std::vector<OpDef> pool_ops();    // max_pool, avg_pool and their gradients
std::vector<OpDef> reduce_ops();  // reduce_sum, reduce_max, reduce_min
std::vector<OpDef> broadcast_ops();
std::vector<OpDef> reshape_ops();
std::vector<OpDef> transpose_ops();
std::vector<OpDef> slice_ops();   // slice, concat, pad
std::vector<OpDef> gather_ops();  // gather, scatter_add
std::vector<OpDef> axis_ops();    // cumsum, sort, take_along, add_along, resize
std::vector<OpDef> index_ops();   // one_hot, arg_max
std::vector<OpDef> scan_ops();
std::vector<OpDef> update_ops();  // sgd, adam, sgd_if, adam_if
std::vector<OpDef> assign_ops();  // assign, copy, layout
std::vector<OpDef> box_ops();
std::vector<OpDef> transfer_ops();
std::vector<OpDef> microbatch_ops();  // accumulate, micro_join, micro_slice

}  // namespace karez::ops
