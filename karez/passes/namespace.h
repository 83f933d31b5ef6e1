// The namespace of `passes`, which uses the namespaces of the components in its row of CMakeLists.txt.
#pragma once

namespace karez::base {}
namespace karez::tensor {}
namespace karez::solve {}
namespace karez::sbp {}
namespace karez::graph {}
namespace karez::ops {}
namespace karez::plan {}

namespace karez::passes {
using namespace base;
using namespace tensor;
using namespace solve;
using namespace sbp;
using namespace graph;
using namespace ops;
using namespace plan;
}  // namespace karez::passes
