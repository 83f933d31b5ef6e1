// Reads the rows of an array in .npy format from a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "karez/data/namespace.h"
#include "karez/device/host_array.h"

namespace karez::data {

// Writes up to bytes.size() bytes and returns their number; 0 at the end.
using ReadBytes = std::function<std::size_t(std::span<std::uint8_t> bytes)>;

// The type of an array with rows, and where they begin.
struct NpyRows {
  TensorType row;
  std::int64_t count = 0;
  std::int64_t begin = 0;  // the bytes before the first row
};
// Reads the header. Rows must have at most max_bytes bytes each.
NpyRows read_npy_rows(const ReadBytes& read, std::string_view name, std::int64_t max_bytes);

class NpyRowReader {
 public:
  NpyRowReader(ReadBytes read, std::string name, std::int64_t max_bytes);
  const NpyRows& rows() const { return rows_; }
  std::optional<HostArray> next();  // nothing after the last row; more bytes than rows are an error
  void skip(std::int64_t rows);

 private:
  void read(std::span<std::uint8_t> bytes);
  ReadBytes read_;
  std::string name_;
  NpyRows rows_;
  std::int64_t number_ = 0;  // of the next row
};

}  // namespace karez::data
