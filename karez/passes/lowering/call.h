// Lowers one node to the local call that a kernel runs: the only place where logical ops become kernel calls.
#pragma once

#include <vector>

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"
#include "karez/plan/catalog.h"

namespace karez::passes {

// `local` are the localised attributes; views have local shapes. Pointwise ops become `pointwise {expr}`; names are
// dropped, and so are shapes and types, which the views have.
CallSpec call_of(const NodeView& node, std::vector<View> in, std::vector<View> out, const Attrs& local);

// How variables are stored, in all functions alike: channels-last with four dimensions (conv weights), otherwise
// row-major.
View stored_view(DType dtype, const Shape& shape);

}  // namespace karez::passes
