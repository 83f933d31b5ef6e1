// The namespace of `ops`, which uses the names of the components in its row of CMakeLists.txt.
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
