// The error that is thrown if no variant of a program fits the memory limit of a device.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Throws an error (kind device) about `c`, the smallest of `plans` plans. The message states the bytes of the fullest
// device and the limit. It lists the ten largest tensors on that device with their layouts and source lines, and makes
// suggestions.
[[noreturn]] void fail_memory_limit(const Compilation& c, std::int64_t limit, std::size_t plans);

}  // namespace karez::passes
