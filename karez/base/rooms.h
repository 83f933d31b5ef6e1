// The rooms as namespaces: each sees the names of the rooms in its row of the table (see CMakeLists.txt), and no
// others.
#pragma once

namespace karez::base {}
namespace karez::tensor {
using namespace base;
}  // namespace karez::tensor
namespace karez::solve {
using namespace base;
}  // namespace karez::solve
namespace karez::sbp {
using namespace base;
using namespace tensor;
}  // namespace karez::sbp
namespace karez::graph {
using namespace base;
using namespace tensor;
using namespace sbp;
}  // namespace karez::graph
namespace karez::ops {
using namespace base;
using namespace tensor;
using namespace sbp;
using namespace graph;
}  // namespace karez::ops
namespace karez::plan {
using namespace base;
using namespace tensor;
}  // namespace karez::plan
namespace karez::passes {
using namespace base;
using namespace tensor;
using namespace solve;
using namespace sbp;
using namespace graph;
using namespace ops;
using namespace plan;
}  // namespace karez::passes
namespace karez::device {
using namespace base;
using namespace tensor;
}  // namespace karez::device
namespace karez::kernels {
using namespace base;
using namespace tensor;
using namespace device;
using namespace plan;
}  // namespace karez::kernels
namespace karez::comm {
using namespace base;
using namespace tensor;
using namespace device;
}  // namespace karez::comm
namespace karez::data {
using namespace base;
using namespace tensor;
using namespace device;
}  // namespace karez::data
namespace karez::runtime {
using namespace base;
using namespace tensor;
using namespace plan;
using namespace device;
using namespace kernels;
using namespace comm;
using namespace data;
}  // namespace karez::runtime
namespace karez::tests {
using namespace base;
using namespace tensor;
using namespace solve;
using namespace sbp;
using namespace graph;
using namespace ops;
using namespace plan;
using namespace passes;
using namespace device;
using namespace kernels;
using namespace comm;
using namespace data;
using namespace runtime;
}  // namespace karez::tests
namespace karez::tools {
using namespace base;
using namespace tensor;
using namespace solve;
using namespace sbp;
using namespace graph;
using namespace ops;
using namespace plan;
using namespace passes;
using namespace device;
using namespace kernels;
using namespace comm;
using namespace data;
using namespace runtime;
}  // namespace karez::tools
namespace karez::bench {
using namespace base;
using namespace tensor;
using namespace solve;
using namespace sbp;
using namespace graph;
using namespace ops;
using namespace plan;
using namespace passes;
using namespace device;
using namespace kernels;
using namespace comm;
using namespace data;
using namespace runtime;
}  // namespace karez::bench
