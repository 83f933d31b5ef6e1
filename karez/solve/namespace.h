// The namespace of `solve`, with using-directives for the components that it may use (see CMakeLists.txt).
#pragma once

namespace karez::base {}

namespace karez::solve {
using namespace base;
}  // namespace karez::solve
