// A small op table for the graph room's tests: one op for each feature of signatures and text.
#pragma once

#include <functional>

#include "karez/base/test_error.h"

#include "karez/graph/namespace.h"
#include "karez/graph/op.h"

namespace karez::graph {

std::vector<TensorType> typed_by_attrs(std::span<const TensorType>, const Attrs& attrs);
std::vector<TensorType> as_first(std::span<const TensorType> in, const Attrs&);
std::vector<TensorType> equal_operands(std::span<const TensorType> in, const Attrs&);
std::vector<TensorType> matmul_type(std::span<const TensorType> in, const Attrs&);

OpTable test_ops();

}  // namespace karez::graph
