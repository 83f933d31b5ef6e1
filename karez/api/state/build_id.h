// build_id: identifies the build of Karez.
#pragma once

#include <string>

namespace karez {

// Returns the build id of the program or shared library that contains Karez, in hexadecimal digits. The linker writes
// it if -Wl,--build-id is set; otherwise the result is "". Builds of different code have different ids.
std::string build_id();

}  // namespace karez
