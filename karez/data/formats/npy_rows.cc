// Reads the header of an array, and its rows one after the other.
#include "karez/data/formats/npy_rows.h"

#include <utility>
#include <vector>

#include "karez/base/error.h"
#include "karez/data/npy.h"

namespace karez::data {
namespace {

constexpr std::size_t max_header_bytes = 1 << 20;

std::size_t read_fully(const ReadBytes& read, std::span<std::uint8_t> bytes) {
  std::size_t used = 0;
  while (used < bytes.size()) {
    const std::size_t count = read(bytes.subspan(used));
    if (count == 0) break;
    used += count;
  }
  return used;
}

}  // namespace

NpyRows read_npy_rows(const ReadBytes& read, std::string_view name, std::int64_t max_bytes) {
  std::vector<std::uint8_t> bytes(10);
  const auto chars = [&bytes] { return std::span(reinterpret_cast<const char*>(bytes.data()), bytes.size()); };
  bytes.resize(read_fully(read, bytes));
  if (bytes.size() == 10 && bytes[6] > 1) {  // the length has 4 bytes instead of 2
    bytes.resize(npy_prefix_bytes);
    bytes.resize(10 + read_fully(read, std::span(bytes).subspan(10)));
  }
  const NpyPrefix prefix = parse_npy_prefix(chars(), name);
  require(ErrorKind::data, prefix.length <= max_header_bytes, name, ": the header has ", prefix.length,
          " bytes, more than the limit of ", max_header_bytes);
  bytes.resize(prefix.length);
  const std::size_t got = read_fully(read, bytes);
  require(ErrorKind::data, got == prefix.length, name, ": the header should have ", prefix.length, " bytes, but only ",
          got, " follow");
  NpyHeader header = parse_npy_header({chars().data(), bytes.size()}, name);
  require(ErrorKind::data, !header.type.shape.empty(), name, ": the array has no rows, because it is a scalar");
  require(ErrorKind::data, !header.fortran || header.type.shape.size() == 1, name,
          ": the array is stored in Fortran order, in which rows are not contiguous; store it in C order");
  NpyRows out;
  out.count = header.type.shape[0];
  out.row = {header.type.dtype, {header.type.shape.begin() + 1, header.type.shape.end()}};
  out.begin = static_cast<std::int64_t>(prefix.bytes + prefix.length);
  require(ErrorKind::data, out.row.bytes() <= max_bytes, name, ": a row has ", out.row.bytes(),
          " bytes, more than the limit of ", max_bytes, " (max_record_bytes)");
  return out;
}

NpyRowReader::NpyRowReader(ReadBytes read, std::string name, std::int64_t max_bytes)
    : read_(std::move(read)),
      name_(std::move(name)),
      rows_(read_npy_rows(read_, name_, max_bytes)) {}

void NpyRowReader::read(std::span<std::uint8_t> bytes) {
  const std::size_t got = read_fully(read_, bytes);
  require(ErrorKind::data, got == bytes.size(), name_, ": record ", number_, " at byte ",
          rows_.begin + number_ * rows_.row.bytes(), ": the file ends after ", got, " of ", bytes.size(), " bytes");
}

std::optional<HostArray> NpyRowReader::next() {
  if (number_ == rows_.count) {
    std::uint8_t byte = 0;
    require(ErrorKind::data, read_({&byte, 1}) == 0, name_, ": bytes follow the last row, at byte ",
            rows_.begin + number_ * rows_.row.bytes());
    return std::nullopt;
  }
  HostArray out(rows_.row);
  read({reinterpret_cast<std::uint8_t*>(out.bytes()), static_cast<std::size_t>(rows_.row.bytes())});
  ++number_;
  return out;
}

void NpyRowReader::skip(std::int64_t rows) {
  require(ErrorKind::data, rows >= 0 && rows <= rows_.count - number_, name_, ": record ", rows,
          " does not exist: there are ", rows_.count);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(rows_.row.bytes()));
  if (bytes.empty()) number_ += std::exchange(rows, 0);
  for (; rows > 0; --rows, ++number_) read(bytes);
}

}  // namespace karez::data
