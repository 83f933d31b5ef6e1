// Unpacks zstd data, frame after frame. Only this file calls libzstd.
#include <zstd.h>

#include <vector>

#include "karez/base/error.h"
#include "karez/data/formats/byte_stream.h"

namespace karez::data {
namespace {

class ZstdStream : public ByteStream {
 public:
  ZstdStream(std::unique_ptr<ByteStream> packed, std::string name)
      : packed_(std::move(packed)),
        name_(std::move(name)),
        stream_(ZSTD_createDStream()),
        buffer_(ZSTD_DStreamInSize()) {
    require(ErrorKind::data, stream_ != nullptr, name_, ": zstd failed to start: out of memory");
  }
  ~ZstdStream() override { ZSTD_freeDStream(stream_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  std::size_t read(std::span<std::uint8_t> bytes) override {
    ZSTD_outBuffer out = {bytes.data(), bytes.size(), 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size && !flushing_) {
        before_ += static_cast<std::int64_t>(in_.size);
        in_ = {buffer_.data(), packed_->read(buffer_), 0};
        if (in_.size == 0) {
          require(ErrorKind::data, before_ > 0 && !inside_, name_, ": zstd data ends early, after ", before_, " bytes");
          return 0;
        }
      }
      const std::size_t result = ZSTD_decompressStream(stream_, &out, &in_);
      require(ErrorKind::data, ZSTD_isError(result) == 0, name_, ": zstd data is damaged near byte ",
              before_ + static_cast<std::int64_t>(in_.pos), ": ", ZSTD_getErrorName(result));
      inside_ = result != 0;
      flushing_ = inside_ && out.pos == out.size;  // the library may hold further bytes
    }
    return out.pos;
  }

 private:
  std::unique_ptr<ByteStream> packed_;
  std::string name_;
  ZSTD_DStream* stream_;
  std::vector<std::uint8_t> buffer_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  std::int64_t before_ = 0;  // packed bytes before the buffer
  bool inside_ = false, flushing_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> unpack_zstd(std::unique_ptr<ByteStream> packed, std::string name) {
  return std::make_unique<ZstdStream>(std::move(packed), std::move(name));
}

}  // namespace karez::data
