// The bytes that kernel calls access.
#pragma once

#include <cstdint>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Returns the bytes that a call reads and writes, without its workspace. Bytes of an operand that the call has twice,
// and elements that a stride of 0 repeats, count once; an operand that is overwritten in place counts twice.
std::int64_t bytes_of(const Call& call);

// Returns the bytes that all calls of a launch read and write.
std::int64_t bytes_of_calls(const Plan& plan);

}  // namespace karez::plan
