// The error that is raised if no variant of a program fits the memory limit of a device.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Throws (kind device) about `c`, the smallest of `plans` plans: the bytes of its fullest device and the limit, its ten
// largest tensors there with their layouts and lines, and suggestions.
[[noreturn]] void fail_memory_limit(const Compilation& c, std::int64_t bytes, std::size_t plans);

}  // namespace karez::passes
