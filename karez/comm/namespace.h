// The namespace of `comm`, which uses the names of the components in its row of CMakeLists.txt.
#pragma once

namespace karez::base {}
namespace karez::tensor {}
namespace karez::plan {}
namespace karez::device {}

namespace karez::comm {
using namespace base;
using namespace tensor;
using namespace plan;
using namespace device;
}  // namespace karez::comm
