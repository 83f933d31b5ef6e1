// fit: where a plan takes more of a device than is allowed, the fastest of other ways to run the program that takes no
// more; or a refusal.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The ways, none of which depends on the limit: layouts along the frontier of time and memory (frontier.h), each of
// them as it is, with parameters put together late (gather_late.h), and with ever more modules recomputed
// (recompute_candidates.h); of each ever fewer slots (slots.h). A way's seconds are those of all its calls and
// transfers, and what launches behind each other lose by slots given up. They are tried from the fastest on, so with
// less memory the chosen one is never predicted to be faster. `c` becomes that plan, and says in `slotted.memory_note`
// which way it is and how many were tried. Where none is small enough: an error (kind device) with what the smallest
// takes, its ten largest tensors, and what would help.
void fit_memory(Compilation& c);

}  // namespace karez::passes
