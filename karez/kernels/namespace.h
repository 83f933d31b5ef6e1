// The namespace of `kernels`: it sees the names of the components in its row of CMakeLists.txt.
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
