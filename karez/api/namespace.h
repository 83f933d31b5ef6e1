// Using-directives that make the namespaces of all components visible in `karez`, for the sources of `api`. Public
// headers must not include this file.
#pragma once

namespace karez::base {}
namespace karez::tensor {}
namespace karez::solve {}
namespace karez::sbp {}
namespace karez::graph {}
namespace karez::ops {}
namespace karez::plan {}
namespace karez::passes {}
namespace karez::device {}
namespace karez::kernels {}
namespace karez::comm {}
namespace karez::data {}
namespace karez::runtime {}
namespace karez::control {}

namespace karez {
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
using namespace control;
}  // namespace karez
