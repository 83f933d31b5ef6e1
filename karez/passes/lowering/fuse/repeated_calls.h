// Which pointwise calls are computed again in each reader of their results, instead of storing the results.
#pragma once

#include <cstdint>

#include "karez/base/expr.h"
#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Bytes in memory: those along dimensions that are not repeated.
std::int64_t stored_bytes(const View& view);
// Whether the call, which computes `expr`, takes at most two cheap operations and reads no more bytes than it writes.
bool may_repeat(const LocalCall& call, const Expr& expr);

}  // namespace karez::passes
