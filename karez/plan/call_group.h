// Groups: a call with the attribute `calls` = n stands for n independent calls of one kernel with equal views. It lists
// the operands of the first call, then those of the second, and so on, and the results in the same order.
#pragma once

#include "karez/plan/catalog.h"
#include "karez/plan/namespace.h"

namespace karez::plan {

constexpr int max_calls = 1 << 20;
int calls_of(const Attrs& attrs);  // 1 without the attribute
CallSpec first_call(
    const CallSpec& group);  // the first call of a group, on one thread; a single call is returned as is

}  // namespace karez::plan
