// The number of times that this program calls operator new on this thread while `body` runs, for tests.
#pragma once

#include <functional>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

int allocations_of(const std::function<void()>& body);  // counted in fast_allocation_test.cc

}  // namespace karez::kernels
