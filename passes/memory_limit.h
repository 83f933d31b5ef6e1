// The limit on what a plan may take of each device, and what an error says that meets it.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

bool fits(const Plan& plan, std::int64_t bytes);  // on every device

// Throws (kind device) if the plan takes more than `bytes` on a device: both figures and its ten largest tensors there.
void check_memory(const Compilation& c, std::int64_t bytes);

}  // namespace karez::passes
