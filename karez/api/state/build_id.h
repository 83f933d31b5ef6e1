// Which build of Karez this is.
#pragma once

#include <string>

namespace karez {

// In hexadecimal digits, what the linker wrote into the program or shared library that holds Karez: two builds of
// different code have different ones.
// "": it wrote none (-Wl,--build-id asks for it).
std::string build_id();

}  // namespace karez
