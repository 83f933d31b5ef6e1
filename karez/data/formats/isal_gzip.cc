// Unpacks gzip data, member after member, by ISA-L. Members may be followed by zero bytes.
#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <vector>

#include "karez/base/error.h"
#include "karez/data/formats/byte_stream.h"

namespace karez::data {
namespace {

const char* reason_of(int result) {
  switch (result) {
    case ISAL_INVALID_BLOCK: return "a block has an invalid type or length";
    case ISAL_INVALID_SYMBOL: return "a block contains an invalid code";
    case ISAL_INVALID_LOOKBACK: return "a distance reaches before the first byte";
    case ISAL_INVALID_WRAPPER: return "a member does not begin with the magic number";
    case ISAL_UNSUPPORTED_METHOD: return "the compression method is not deflate";
    case ISAL_INCORRECT_CHECKSUM: return "the checksum of a member is wrong";
    default: return "unknown reason";
  }
}

class GzipStream : public ByteStream {
 public:
  GzipStream(std::unique_ptr<ByteStream> packed, std::string name)
      : packed_(std::move(packed)),
        name_(std::move(name)),
        state_(std::make_unique<inflate_state>()),
        buffer_(1 << 16) {}

  std::size_t read(std::span<std::uint8_t> bytes) override {
    bytes = bytes.first(std::min<std::size_t>(bytes.size(), 1u << 30));
    state_->next_out = bytes.data();
    state_->avail_out = static_cast<std::uint32_t>(bytes.size());
    while (state_->avail_out == bytes.size()) {
      if (!inside_ && !begin_member()) return 0;
      if (state_->avail_in == 0 && !flushing_) {
        const bool more = fill();
        require(ErrorKind::data, more, name_, ": gzip data ends early, after ", before_, " bytes");
      }
      const int result = isal_inflate(state_.get());
      require(ErrorKind::data, result >= ISAL_DECOMP_OK && result != ISAL_NEED_DICT, name_,
              ": gzip data is damaged near byte ", before_ - state_->avail_in, ": ", reason_of(result));
      inside_ = state_->block_state != ISAL_BLOCK_FINISH;
      flushing_ = inside_ && state_->avail_out == 0;  // the library may hold further bytes
    }
    return bytes.size() - state_->avail_out;
  }

 private:
  bool fill() {
    const std::size_t count = packed_->read(buffer_);
    state_->next_in = buffer_.data();
    state_->avail_in = static_cast<std::uint32_t>(count);
    before_ += static_cast<std::int64_t>(count);
    return count > 0;
  }
  // Begins the next member; false at the end of the file. Zero bytes may follow a member, as tapes need.
  bool begin_member() {
    while (true) {
      while (begun_ && state_->avail_in > 0 && *state_->next_in == 0) ++state_->next_in, --state_->avail_in;
      if (state_->avail_in > 0) break;
      if (fill()) continue;
      require(ErrorKind::data, begun_, name_, ": gzip data ends early, after 0 bytes");
      return false;
    }
    begun_ = true;
    std::uint8_t *const in = state_->next_in, *const out = state_->next_out;
    const std::uint32_t avail_in = state_->avail_in, avail_out = state_->avail_out;
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;
    state_->next_in = in, state_->avail_in = avail_in;
    state_->next_out = out, state_->avail_out = avail_out;
    return inside_ = true;
  }

  std::unique_ptr<ByteStream> packed_;
  std::string name_;
  std::unique_ptr<inflate_state> state_;  // 85 KB
  std::vector<std::uint8_t> buffer_;
  std::int64_t before_ = 0;  // packed bytes up to the end of the buffer
  bool begun_ = false, inside_ = false, flushing_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> unpack_gzip(std::unique_ptr<ByteStream> packed, std::string name) {
  return std::make_unique<GzipStream>(std::move(packed), std::move(name));
}

}  // namespace karez::data
