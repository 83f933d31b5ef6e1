// The namespace of `report`, which uses the names of the components in its row of CMakeLists.txt.
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
