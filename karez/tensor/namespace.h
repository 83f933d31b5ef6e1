// The namespace of `tensor`, which uses the names of the components in its row of CMakeLists.txt.
#pragma once

namespace karez::base {}

namespace karez::tensor {
using namespace base;
}  // namespace karez::tensor
