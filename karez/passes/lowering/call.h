// Lowers one node to the local call that a kernel runs. No other file turns logical ops into kernel calls.
#pragma once

#include <vector>

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"
#include "karez/plan/catalog.h"

namespace karez::passes {

// `local` holds the localised attributes, and the views have local shapes. Pointwise ops become `pointwise {expr}`.
// Attributes for names are dropped. Attributes for shapes and types are dropped too, because the views contain them.
CallSpec call_of(const NodeView& node, std::vector<View> in, std::vector<View> out, const Attrs& local);

// Returns the view in which all functions store a variable: channels-last if there are four dimensions (convolution
// weights), otherwise row-major.
View stored_view(DType dtype, const Shape& shape);

}  // namespace karez::passes
