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

// Images [n, h, w] and their labels [n]; each label is below `classes`.
struct LabelledImages {
  Shape shape;                       // [n, h, w]
  std::vector<std::uint8_t> images;  // n * h * w grey levels
  std::vector<std::uint8_t> labels;
  std::int64_t rows() const { return shape[0]; }
};

// Reads the pair "<part>-images-idx3-ubyte" and "<part>-labels-idx1-ubyte" of a directory, each with or without ".gz";
// part is "train" or "t10k".
LabelledImages read_labelled_images(const std::string& directory, std::string_view part, int classes = 10);

}  // namespace karez::data
