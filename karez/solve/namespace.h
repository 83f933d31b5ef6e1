// The namespace of `solve`, which uses the names of the components in its row of CMakeLists.txt.
#pragma once

namespace karez::base {}

namespace karez::solve {
using namespace base;
}  // namespace karez::solve
