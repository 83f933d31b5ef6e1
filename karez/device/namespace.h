// The namespace of `device`: it sees the names of the components in its row of CMakeLists.txt.
#pragma once

namespace karez::base {}
namespace karez::tensor {}

namespace karez::device {
using namespace base;
using namespace tensor;
}  // namespace karez::device
