// The namespace of `plan`, which uses the names of the components in its row of CMakeLists.txt.
#pragma once

namespace karez::base {}
namespace karez::tensor {}

namespace karez::plan {
using namespace base;
using namespace tensor;
}  // namespace karez::plan
