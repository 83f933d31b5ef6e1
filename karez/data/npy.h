// NumPy's .npy files: one array each, with its type and shape.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "karez/data/namespace.h"
#include "karez/device/host_array.h"

namespace karez::data {

// Reads f16, f32, f64, i32, i64 and bool in little-endian byte order, C or Fortran order, format versions 1 to 3.
// Throws data errors that name the file: for a missing magic number, an unsupported type, an invalid shape, too few or
// too many bytes.
HostArray read_npy(const std::string& path);
HostArray parse_npy(std::span<const char> bytes, std::string_view name);

}  // namespace karez::data
