// The namespace of `comm`, with using-directives for the components that it may use (see CMakeLists.txt).
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
