// The namespace of `data`, which uses the names of the components in its row of CMakeLists.txt.
#pragma once

namespace karez::base {}
namespace karez::tensor {}
namespace karez::device {}

namespace karez::data {
using namespace base;
using namespace tensor;
using namespace device;
}  // namespace karez::data
