// Reads IDX files: magic number 00 00 08 rank, one big-endian 32-bit count per dimension, then the bytes.
#include "karez/data/idx.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "karez/data/formats/byte_stream.h"

namespace karez::data {
namespace {
namespace fs = std::filesystem;

std::string hex_of(std::uint32_t word) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", static_cast<unsigned>(word));
  return text;
}

std::uint32_t big_endian(std::span<const std::uint8_t> bytes, std::size_t at) {
  return static_cast<std::uint32_t>(bytes[at]) << 24 | static_cast<std::uint32_t>(bytes[at + 1]) << 16 |
         static_cast<std::uint32_t>(bytes[at + 2]) << 8 | static_cast<std::uint32_t>(bytes[at + 3]);
}

struct Header {
  Shape shape;
  std::int64_t bytes = 0;  // of the header itself
  std::int64_t count = 0;  // of the bytes that should follow
};

std::size_t header_bytes(int rank) { return 4 + 4 * static_cast<std::size_t>(rank); }

Header header_of(std::span<const std::uint8_t> bytes, int rank, std::string_view name) {
  require(ErrorKind::data, bytes.size() >= 4, name, ": ", bytes.size(), " bytes are too few for an IDX header");
  std::uint32_t magic = big_endian(bytes, 0), expected = 0x0800u | static_cast<std::uint32_t>(rank);
  if (magic != expected)
    fail(ErrorKind::data, name, ": unexpected magic number ", hex_of(magic), "; an IDX file of unsigned bytes with ",
         rank, " dimension", rank == 1 ? "" : "s", " begins with ", hex_of(expected));
  std::size_t size = header_bytes(rank);
  require(ErrorKind::data, bytes.size() >= size, name, ": truncated: the header takes ", size,
          " bytes, but the file has ", bytes.size());
  Header header{{}, static_cast<std::int64_t>(size), 0};
  for (int d = 0; d < rank; ++d) header.shape.push_back(big_endian(bytes, 4 + 4 * static_cast<std::size_t>(d)));
  header.count = count_of(header.shape);
  return header;
}

bool is_gzip(std::span<const std::uint8_t> bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

class MemoryStream : public ByteStream {
 public:
  explicit MemoryStream(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::size_t read(std::span<std::uint8_t> out) override {
    const auto part = bytes_.first(std::min(out.size(), bytes_.size()));
    std::copy(part.begin(), part.end(), out.begin());
    bytes_ = bytes_.subspan(part.size());
    return part.size();
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

// Appends up to `count` bytes of a stream.
void append(std::vector<std::uint8_t>& out, ByteStream& stream, std::int64_t count) {
  std::size_t used = out.size();
  while (count > 0) {
    // Memory is taken as bytes arrive, because a damaged header may request any size.
    if (used == out.size()) out.resize(used + static_cast<std::size_t>(std::min<std::int64_t>(count, 1 << 24)));
    const std::size_t read = stream.read(std::span(out).subspan(used));
    if (read == 0) break;
    used += read, count -= static_cast<std::int64_t>(read);
  }
  out.resize(used);
}

}  // namespace

IdxArray parse_idx(std::span<const std::uint8_t> bytes, int rank, std::string_view name) {
  Header header = header_of(bytes, rank, name);
  std::int64_t bytes_present = static_cast<std::int64_t>(bytes.size()) - header.bytes;
  require(ErrorKind::data, header.count <= bytes_present, name, ": the shape ", header.shape, " in the header takes ",
          header.count, " bytes, but only ", bytes_present, " follow it");
  require(ErrorKind::data, header.count == bytes_present, name, ": the shape ", header.shape, " in the header takes ",
          header.count, " bytes, but ", bytes_present, " follow it");
  return {std::move(header.shape), {bytes.begin() + header.bytes, bytes.end()}};
}

IdxArray unpack_idx(std::span<const std::uint8_t> bytes, int rank, std::string_view name) {
  if (!is_gzip(bytes)) return parse_idx(bytes, rank, name);
  // A few bytes can unpack to a thousand times as many, so the header is read first for the expected count.
  const auto stream = unpack_gzip(std::make_unique<MemoryStream>(bytes), std::string(name));
  std::vector<std::uint8_t> plain;
  append(plain, *stream, static_cast<std::int64_t>(header_bytes(rank)));
  const Header header = header_of(plain, rank, name);
  append(plain, *stream, checked_add(header.count, 1));
  require(ErrorKind::data, std::ssize(plain) <= checked_add(header.bytes, header.count), name, ": the shape ",
          header.shape, " in the header takes ", header.count, " bytes, but more follow it");
  return parse_idx(plain, rank, name);
}

IdxArray read_idx(const std::string& path, int rank) {
  std::ifstream in(path, std::ios::binary);
  require(ErrorKind::data, in.good() && fs::is_regular_file(path), "cannot open '", path, "'");
  std::vector<std::uint8_t> bytes(fs::file_size(path));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  require(ErrorKind::data, in.gcount() == static_cast<std::streamsize>(bytes.size()), "cannot read '", path, "': got ",
          in.gcount(), " of ", bytes.size(), " bytes");
  return unpack_idx(bytes, rank, path);
}

}  // namespace karez::data
