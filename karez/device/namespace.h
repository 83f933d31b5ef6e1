// The namespace of `device`, with using-directives for the components that it may use (see CMakeLists.txt).
#pragma once

namespace karez::base {}
namespace karez::tensor {}

namespace karez::device {
using namespace base;
using namespace tensor;
}  // namespace karez::device
