// NumPy's .npy files: one array each, with its type and shape.
#pragma once

#include <cstddef>
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

// The parts before the elements: the first 10 or 12 bytes, and the header, a Python dictionary as text.
struct NpyPrefix {
  std::size_t bytes = 0, length = 0;  // its own bytes, and those of the header
};
inline constexpr std::size_t npy_prefix_bytes = 12;  // at most
NpyPrefix parse_npy_prefix(std::span<const char> bytes, std::string_view name);
struct NpyHeader {
  TensorType type;
  bool fortran = false;  // the first dimension is the fastest
};
NpyHeader parse_npy_header(std::string_view text, std::string_view name);

}  // namespace karez::data
