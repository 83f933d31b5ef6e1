// IDX files (LeCun's format of MNIST and similar data sets): unsigned bytes with a shape, plain or gzipped.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::data {

// The content of an IDX file of unsigned bytes, row-major.
struct IdxArray {
  Shape shape;
  std::vector<std::uint8_t> bytes;
};

// Reads a file of `rank` dimensions. Errors name the file and the wrong values: an unexpected magic number,
// counts beyond the file, missing or additional bytes, gzip damage.
IdxArray read_idx(const std::string& path, int rank);
// Parses the bytes of such a file, plain or gzipped; errors begin with `name`. Allocates the bytes that the header
// counts, but no more than the file can contain.
IdxArray unpack_idx(std::span<const std::uint8_t> bytes, int rank, std::string_view name);
IdxArray parse_idx(std::span<const std::uint8_t> bytes, int rank, std::string_view name);  // the same, plain bytes only

}  // namespace karez::data
