// Identifies the build of Karez.
#pragma once

#include <string>

namespace karez {

// The build id, in hexadecimal digits, that the linker wrote into the program or shared library that contains Karez:
// builds of different code have different ids. "" if the linker wrote none (-Wl,--build-id requests it).
std::string build_id();

}  // namespace karez
