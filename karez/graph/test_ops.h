// A small op table for the tests of this component: one op for each feature of signatures and text.
#pragma once

#include <functional>

#include "karez/base/test_error.h"

#include "karez/graph/namespace.h"
#include "karez/graph/op.h"

namespace karez::graph {

std::vector<TensorType> infer_from_attrs(std::span<const TensorType>, const Attrs& attrs);
std::vector<TensorType> infer_first(std::span<const TensorType> in, const Attrs&);
std::vector<TensorType> infer_equal(std::span<const TensorType> in, const Attrs&);
std::vector<TensorType> infer_matmul(std::span<const TensorType> in, const Attrs&);

OpTable test_ops();

}  // namespace karez::graph
