// The namespace of `runtime`, with using-directives for the components that it may use (see CMakeLists.txt).
#pragma once

namespace karez::base {}
namespace karez::tensor {}
namespace karez::plan {}
namespace karez::device {}
namespace karez::kernels {}
namespace karez::comm {}
namespace karez::data {}

namespace karez::runtime {
using namespace base;
using namespace tensor;
using namespace plan;
using namespace device;
using namespace kernels;
using namespace comm;
using namespace data;
}  // namespace karez::runtime
