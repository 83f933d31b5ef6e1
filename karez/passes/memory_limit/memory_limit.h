// What an error says when no way to run a program takes as few bytes of a device as are allowed.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Throws (kind device) about `c`, the smallest of so many plans: what it takes of its fullest device and what is
// allowed, its ten largest tensors there with their layouts and lines, and what would help.
[[noreturn]] void fail_memory_limit(const Compilation& c, std::int64_t bytes, std::size_t plans);

}  // namespace karez::passes
