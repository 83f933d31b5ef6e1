// The namespace of `report`, with using-directives for the components that it may use (see CMakeLists.txt).
#pragma once

namespace karez::base {}
namespace karez::tensor {}
namespace karez::solve {}
namespace karez::sbp {}
namespace karez::graph {}
namespace karez::ops {}
namespace karez::plan {}
namespace karez::device {}
namespace karez::kernels {}
namespace karez::runtime {}

namespace karez::report {
using namespace base;
using namespace tensor;
using namespace solve;
using namespace sbp;
using namespace graph;
using namespace ops;
using namespace plan;
using namespace device;
using namespace kernels;
using namespace runtime;
}  // namespace karez::report
