// The namespace of `sbp`, which uses the names of the components in its row of CMakeLists.txt.
#pragma once

namespace karez::base {}
namespace karez::tensor {}

namespace karez::sbp {
using namespace base;
using namespace tensor;
}  // namespace karez::sbp
