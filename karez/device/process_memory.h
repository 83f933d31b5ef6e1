// How much memory this process uses.
#pragma once

#include <cstdint>

#include "karez/device/namespace.h"

namespace karez::device {

// The bytes of this process in physical memory, without those of files and of memory that other processes share; 0 if
// the system does not say.
std::int64_t process_memory();

}  // namespace karez::device
