// NumPy's .npy files: one array each, with its type and shape.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "karez/data/namespace.h"
#include "karez/device/host_array.h"

namespace karez::data {

// Reads f32, f64, i32, i64 and bool in little-endian byte order, C or Fortran order, format versions 1 to 3. Errors are
// of data and name the file: no magic, a type there is none of here, a shape that is none, bytes that are too few or
// too many.
HostArray read_npy(const std::string& path);
HostArray parse_npy(std::span<const char> bytes, std::string_view name);

}  // namespace karez::data
