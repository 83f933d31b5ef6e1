// build_id: identifies the build of Karez.
#pragma once

#include <string>

namespace karez {

// Returns the build id, in hexadecimal digits, that the linker wrote into the program or shared library that contains
// Karez; "" if the linker wrote none (-Wl,--build-id requests it). Builds of different code have different ids.
std::string build_id();

}  // namespace karez
