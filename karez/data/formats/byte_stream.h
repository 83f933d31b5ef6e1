// The bytes of a file from the beginning to the end, unpacked if the name of the file ends with .gz or .zst.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "karez/data/namespace.h"

namespace karez::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Writes up to bytes.size() bytes, which is not 0, and returns their number; 0: the stream has ended.
  virtual std::size_t read(std::span<std::uint8_t> bytes) = 0;
  // Moves up to `bytes` bytes on without reading them, and returns their number, which may be 0.
  virtual std::int64_t skip(std::int64_t /*bytes*/) { return 0; }
};

// Opens a file as it is stored, `offset` bytes after its beginning.
using FileOpener = std::function<std::unique_ptr<ByteStream>(const std::string& path, std::int64_t offset)>;
std::unique_ptr<ByteStream> open_local_file(const std::string& path, std::int64_t offset);

// Whether the name ends with .gz or .zst.
bool is_compressed(std::string_view path);

struct OpenLimits {
  std::int64_t max_file_bytes = 0;  // a file that has more bytes, unpacked, is an error; 0: no limit
};
// The bytes of a file that begin `offset` bytes after its beginning. A compressed file is unpacked, and its first
// `offset` bytes are dropped.
std::unique_ptr<ByteStream> open_unpacked(const std::string& path, std::int64_t offset, const FileOpener& open,
                                          const OpenLimits& limits = {});

// Unpack a stream; errors begin with `name`. Both formats may consist of several parts, one after the other.
std::unique_ptr<ByteStream> unpack_gzip(std::unique_ptr<ByteStream> packed, std::string name);
std::unique_ptr<ByteStream> unpack_zstd(std::unique_ptr<ByteStream> packed, std::string name);

}  // namespace karez::data
