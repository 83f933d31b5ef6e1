// IDX files (LeCun's format of MNIST and its kin): unsigned bytes with a shape, plain or gzipped.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::data {

// What an IDX file of unsigned bytes holds, row-major.
struct IdxArray {
  Shape shape;
  std::vector<std::uint8_t> bytes;
};

// Reads a file of `rank` dimensions. Errors name the file and what it holds: bad magic, counts beyond the file, a cut
// or a tail, gzip damage.
IdxArray read_idx(const std::string& path, int rank);
// The same from the file's bytes, plain or gzipped. Memory taken is what the header counts, and no more than the bytes
// can hold.
IdxArray unpack_idx(std::span<const std::uint8_t> bytes, int rank, std::string_view name);
IdxArray parse_idx(std::span<const std::uint8_t> bytes, int rank, std::string_view name);

// Images [n, h, w] and their labels [n], each below `classes`.
struct LabelledImages {
  Shape shape;                       // [n, h, w]
  std::vector<std::uint8_t> images;  // n * h * w grey levels
  std::vector<std::uint8_t> labels;
  std::int64_t rows() const { return shape[0]; }
};

// The pair "<part>-images-idx3-ubyte" and "<part>-labels-idx1-ubyte" of a directory, each with or without ".gz"; part
// is "train" or "t10k".
LabelledImages read_labelled_images(const std::string& directory, std::string_view part, int classes = 10);

}  // namespace karez::data
