// Unpacks gzip data into a growing buffer, member after member.
#include "karez/data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "karez/base/error.h"

namespace karez::data {
namespace {

// zlib's stream, closed by the destructor.
struct Inflater {
  z_stream stream{};
  explicit Inflater(std::string_view name) {
    int rc = inflateInit2(&stream, 16 + MAX_WBITS);  // 16: requires a gzip header and a checksum at the end
    require(ErrorKind::data, rc == Z_OK, name, ": zlib failed to start: error ", rc);
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

}  // namespace

bool is_gzip(std::span<const std::uint8_t> bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

std::vector<std::uint8_t> gunzip(std::span<const std::uint8_t> bytes, std::string_view name, std::size_t max_bytes) {
  require(ErrorKind::data, is_gzip(bytes), name, ": not gzip data");
  require(ErrorKind::data, bytes.size() <= std::numeric_limits<uInt>::max(), name, ": gzip data must have at most ",
          std::numeric_limits<uInt>::max(), " bytes, got ", bytes.size());
  Inflater in(name);
  in.stream.next_in = const_cast<Bytef*>(bytes.data());  // zlib reads only; its C interface predates const
  in.stream.avail_in = static_cast<uInt>(bytes.size());
  std::vector<std::uint8_t> out;
  std::size_t used = 0;
  while (used < max_bytes) {
    if (used == out.size()) out.resize(std::min(max_bytes, std::max(bytes.size() * 4, out.size() * 2)));
    auto available = static_cast<uInt>(std::min<std::size_t>(out.size() - used, 1u << 30));
    in.stream.next_out = out.data() + used;
    in.stream.avail_out = available;
    int rc = inflate(&in.stream, Z_NO_FLUSH);
    used += available - in.stream.avail_out;
    if (rc == Z_STREAM_END) {
      if (in.stream.avail_in == 0) break;
      inflateReset(&in.stream);  // another member follows: gzip files may be concatenated
      continue;
    }
    require(ErrorKind::data, rc != Z_BUF_ERROR || in.stream.avail_in > 0, name, ": gzip data ends early, after ",
            bytes.size(), " bytes (", used, " unpacked)");
    require(ErrorKind::data, rc == Z_OK || rc == Z_BUF_ERROR, name, ": gzip data is damaged near byte ",
            bytes.size() - in.stream.avail_in, ": ", in.stream.msg ? in.stream.msg : "unknown reason");
  }
  out.resize(used);
  return out;
}

}  // namespace karez::data
