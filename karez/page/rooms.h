// The names that this room sees (CMakeLists.txt), and this room's for the tools.
#pragma once

#include "karez/base/rooms.h"

namespace karez::page {
using namespace base;
using namespace tensor;
using namespace solve;
using namespace sbp;
using namespace graph;
using namespace ops;
using namespace plan;
using namespace kernels;
using namespace runtime;
}  // namespace karez::page
namespace karez::tools {
using namespace page;
}  // namespace karez::tools
