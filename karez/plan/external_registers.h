// Registers whose memory is that of a result.
#pragma once

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

inline bool is_external(const Plan& plan, RegisterId reg) {
  const BlockId block = plan.reg(reg).block;
  return block.valid() && plan.block(block).kind == BlockKind::external;
}

// Whether a fetch copies nothing, because its operand is computed in the memory of its result.
inline bool is_in_place(const Plan& plan, const Actor& fetch) {
  const RegisterId reg = fetch.bound[0].reg;
  return reg.valid() && is_external(plan, reg) && plan.block(plan.reg(reg).block).name == fetch.binding;
}

}  // namespace karez::plan
