// The namespace of `data`, with using-directives for the components that it may use (see CMakeLists.txt).
#pragma once

namespace karez::base {}
namespace karez::tensor {}
namespace karez::plan {}
namespace karez::device {}

namespace karez::data {
using namespace base;
using namespace tensor;
using namespace plan;
using namespace device;
}  // namespace karez::data
