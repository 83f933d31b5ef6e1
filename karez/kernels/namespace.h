// The namespace of `kernels`, with using-directives for the components that it may use (see CMakeLists.txt).
#pragma once

namespace karez::base {}
namespace karez::tensor {}
namespace karez::device {}
namespace karez::plan {}

namespace karez::kernels {
using namespace base;
using namespace tensor;
using namespace device;
using namespace plan;
}  // namespace karez::kernels
