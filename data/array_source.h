// An array in host memory as a source: the same batch at every position. How a value that the user holds enters a plan.
#pragma once

#include <memory>

#include "data/source.h"
#include "device/host_array.h"

namespace karez::data {

std::shared_ptr<const Source> array_source(HostArray array);

}  // namespace karez::data
