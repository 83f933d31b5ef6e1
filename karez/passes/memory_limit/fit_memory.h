// fit_memory: finds the fastest variant of a program that fits the memory limit per device.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Does nothing if there is no limit or the plan of `c` fits. Otherwise replaces `c` with the fastest variant that fits;
// `slot_assignment.memory_note` then names the variant and the number of plans tried. If no variant is small enough,
// throws an error (kind device) with the bytes of the smallest variant, its ten largest tensors, and suggestions.
//
// The variants do not depend on the limit. They use the layouts along the frontier of time and memory (frontier.h). For
// each of these layouts, one variant leaves the program unchanged, a second one gathers parameters late
// (gather_late.h), and others also recompute more and more modules (recompute_candidates.h). Each variant can have
// fewer slots (slots.h). The seconds of a variant are those of all its calls and transfers, plus the time that
// successive launches lose with fewer slots. The fastest variants are tried first, so with less memory the chosen
// variant is never predicted to be faster.
void fit_memory(Compilation& c);

}  // namespace karez::passes
