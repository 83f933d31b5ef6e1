// Writes arrays as .npy files, so that another program can compare them with references.
#pragma once

#include <filesystem>
#include <fstream>

#include "karez/base/text.h"
#include "karez/device/host_array.h"
#include "tools/namespace.h"

namespace karez::tools {

// NumPy's file format, version 1.0: magic, header length, a Python dictionary padded to 64 bytes, the elements.
inline void write_npy(const std::filesystem::path& path, const HostArray& array) {
  const char* type = "";
  switch (array.dtype()) {
    case DType::f32: type = "<f4"; break;
    case DType::f64: type = "<f8"; break;
    case DType::i32: type = "<i4"; break;
    case DType::i64: type = "<i8"; break;
    case DType::b8: type = "|b1"; break;
    case DType::u8: type = "|u1"; break;
    case DType::f16: type = "<f2"; break;
    case DType::bf16: type = "<V2"; break;  // NumPy has no bf16: written as two raw bytes
  }
  std::string shape;
  for (std::int64_t size : array.shape()) shape += cat(size, ", ");
  std::string header = cat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", shape, "), }");
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  const std::string magic("\x93NUMPY\x01\x00", 8);
  const char length[] = {static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  out << magic << std::string(length, 2) << header;
  out.write(reinterpret_cast<const char*>(array.bytes()), array.view().bytes());
  require(out.good(), "cannot write ", path.string());
}

}  // namespace karez::tools
