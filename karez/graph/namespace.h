// The namespace of `graph`, which uses the names of the components in its row of CMakeLists.txt.
#pragma once

namespace karez::base {}
namespace karez::tensor {}
namespace karez::sbp {}

namespace karez::graph {
using namespace base;
using namespace tensor;
using namespace sbp;
}  // namespace karez::graph
