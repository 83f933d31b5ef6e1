// The error that is thrown if no variant of a program fits the memory limit of a device.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Throws an error (kind device) about `c`, the smallest of `plans` plans. The error has the bytes of the fullest device
// and the limit, the ten largest tensors on that device with their layouts and lines, and suggestions.
[[noreturn]] void fail_memory_limit(const Compilation& c, std::int64_t bytes, std::size_t plans);

}  // namespace karez::passes
