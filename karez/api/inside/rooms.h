// For api's own sources, which write in `karez` itself: every room's names. Public headers do without and say whose
// name it is.
#pragma once

#include "karez/base/rooms.h"

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
}  // namespace karez
