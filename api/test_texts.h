// For the tests of this room: an error's text, and an array's elements as a list.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "device/host_array.h"

namespace karez {

inline std::string error_of(auto&& body) {
  try {
    body();
  } catch (const base::Error& error) { return error.what(); }
  return "no error";
}

template <class T = float> std::vector<T> list(const device::HostArray& array) {
  auto data = array.data<T>();
  return {data.begin(), data.end()};
}

}  // namespace karez
