// The namespace of `graph`, with using-directives for the components that it may use (see CMakeLists.txt).
#pragma once

namespace karez::base {}
namespace karez::tensor {}
namespace karez::sbp {}

namespace karez::graph {
using namespace base;
using namespace tensor;
using namespace sbp;
}  // namespace karez::graph
