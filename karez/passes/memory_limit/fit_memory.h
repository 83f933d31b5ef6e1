// fit_memory: if a plan exceeds the memory limit of a device, finds the fastest variant of the program that fits, or
// refuses the program.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The variants, none of which depends on the limit, are the layouts along the frontier of time and memory (frontier.h),
// each unchanged, with parameters gathered late (gather_late.h), and with more and more modules recomputed
// (recompute_candidates.h); of each, fewer and fewer slots (slots.h). A variant's seconds are those of all its calls
// and transfers, plus the time that successive launches lose by fewer slots. Variants are tried from the fastest on, so
// with less memory the chosen one is never predicted to be faster. `c` becomes that plan; `slot_assignment.memory_note`
// names the variant and the number of plans tried. If no variant is small enough, the error (kind device) has the bytes
// of the smallest, its ten largest tensors, and suggestions.
void fit_memory(Compilation& c);

}  // namespace karez::passes
