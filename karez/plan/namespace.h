// The namespace of `plan`. It imports the names of the components that `plan` depends on (see CMakeLists.txt).
#pragma once

namespace karez::base {}
namespace karez::tensor {}

namespace karez::plan {
using namespace base;
using namespace tensor;
}  // namespace karez::plan
