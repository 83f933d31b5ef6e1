// For the tests of this component: an error's text (karez/base/test_error.h), and an array's elements as a list.
#pragma once

#include <vector>

#include "karez/base/test_error.h"
#include "karez/device/host_array.h"

namespace karez {

using base::error_of;

template <class T = float> std::vector<T> list(const device::HostArray& array) {
  auto data = array.data<T>();
  return {data.begin(), data.end()};
}

}  // namespace karez
