// memory: offsets in one arena per device; registers and values inside actors share bytes where the plan's tokens keep
// them apart.
#pragma once

#include <string>

#include "karez/passes/namespace.h"
#include "karez/plan/plan.h"
#include "karez/solve/packing.h"

namespace karez::passes {

// The plan that emit makes gives every register, and every value inside an actor, bytes of its own. This one packs what
// lies in scratch and register blocks of a device into one block. Two of them may share bytes iff no act, of however
// many launches under way, can find both in use:
//
//   one is over before the other begins  every reader's last call on r comes before the first call on s: in the same
//   actor by the order of calls,
//                                        else along edges without tokens; and every reader's last call on s comes
//                                        before the next launch's first call on r, with at most one token on the way
//   one stream                           both live within one act, of two compute actors of one stream
//
// Edges are registers (forward without token, back with their slots), the session's starts and ends, and the turns of
// communicators. What has another rate than once a launch, lies behind a link, or is touched by actors that hold no
// register of it keeps its own bytes. A register whose further slots can never be used, because each reader's act comes
// before the producer's next one anyway, is left with one.
//
// Up to so many places of a device are packed by all pairs that may not share. Of more, whose pairs are too many, lives
// are told by times along the longest chains of acts, which now and then keeps apart what might share, never the other
// way about.
Plan memory(Plan plan, const solve::PackLimits& limits = {}, std::size_t max_pairwise = 4000);

}  // namespace karez::passes
