// Counts the calls of operator new that this program makes on this thread while `body` runs, for tests.
#pragma once

#include <functional>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

int allocations_of(const std::function<void()>& body);  // defined in fast_allocation_test.cc

}  // namespace karez::kernels
