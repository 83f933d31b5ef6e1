// The memory pass: assigns offsets in one arena per device. Registers and values inside actors share memory if the
// plan's tokens prove that they are never in use at the same time.
#pragma once

#include <string>

#include "karez/passes/namespace.h"
#include "karez/plan/plan.h"
#include "karez/solve/packing.h"

namespace karez::passes {

// The emit pass gives every register, and every value inside an actor, a separate buffer in the scratch and register
// blocks. This pass packs all these buffers of a device into one block. Two buffers, r and s, may share memory if one
// of two conditions holds. Each ensures that r and s are never in use at the same time, with any number of active
// launches:
//
//   one ends before the other begins  every reader's last call on r comes before the first call on s (in the same actor
//                                     by the order of calls, otherwise along edges without tokens), and every reader's
//                                     last call on s comes before the next launch's first call on r, along a path with
//                                     at most one token
//   both are on one stream            each lives within one act of a compute actor of this stream
//
// The edges come from registers (forward without tokens, back with as many tokens as slots), from the starts and ends
// of launches, and from the turns of communicators. A register shares no memory if its actors act at different rates or
// if a link uses the register. A block is not packed if operands overlap with a register or with operands of another
// actor. A register gets only one slot if further slots could never be used, because each reader's act precedes the
// producer's next act anyway.
//
// If a device has at most `max_pairwise` buffers, they are packed by all pairs that must not share memory, and `limits`
// bounds the work. With more buffers there are too many pairs, so lifetimes are intervals of time along the longest
// chains of acts instead. Such lifetimes sometimes forbid sharing that would be safe, but never permit sharing that is
// not.
Plan memory(Plan plan, const solve::PackLimits& limits = {}, std::size_t max_pairwise = 4000);

}  // namespace karez::passes
