// The namespace of `sbp`: it sees the names of the components in its row of CMakeLists.txt.
#pragma once

namespace karez::base {}
namespace karez::tensor {}

namespace karez::sbp {
using namespace base;
using namespace tensor;
}  // namespace karez::sbp
