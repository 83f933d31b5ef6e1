// Test helpers of this component: the message of an error (karez/base/test_error.h), the elements of an array as a
// list, and a comparison of arrays bit for bit.
#pragma once

#include <cstring>
#include <vector>

#include "karez/api/tensor.h"
#include "karez/base/test_error.h"
#include "karez/device/host_array.h"

namespace karez {

using base::error_of;

template <class T = float> std::vector<T> list(const device::HostArray& array) {
  auto data = array.data<T>();
  return {data.begin(), data.end()};
}
template <class T = float> std::vector<T> list(const Tensor& tensor) { return list<T>(tensor.read()); }

inline bool equal_bits(const device::HostArray& a, const device::HostArray& b) {
  return a.type() == b.type() && std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.type().bytes())) == 0;
}

}  // namespace karez
