// The namespace of `ops`, with using-directives for the components that it may use (see CMakeLists.txt).
#pragma once

namespace karez::base {}
namespace karez::tensor {}
namespace karez::sbp {}
namespace karez::graph {}

namespace karez::ops {
using namespace base;
using namespace tensor;
using namespace sbp;
using namespace graph;
}  // namespace karez::ops
