// Decodes WebP images. Only this file calls libwebp.
#include <webp/decode.h>
#include <webp/demux.h>

#include "karez/base/error.h"
#include "karez/data/images/pixels.h"

namespace karez::data {
namespace {

using Bytes = std::span<const std::uint8_t>;

void check(VP8StatusCode status, Bytes file, std::string_view name) {
  constexpr const char* texts[] = {"",
                                   "out of memory",
                                   "an invalid parameter",
                                   "a damaged bit stream",
                                   "a feature that is not supported",
                                   "suspended",
                                   "aborted by the user",
                                   "the file ends too early"};
  if (status == VP8_STATUS_OK) return;
  const auto number = static_cast<std::size_t>(status);
  fail(ErrorKind::data, name, ": the WebP image of ", file.size(),
       " bytes is damaged or truncated: ", number < std::size(texts) ? texts[number] : "unknown error");
}

int orientation_of(Bytes file) {
  const WebPData data{file.data(), file.size()};
  WebPDemuxer* demuxer = WebPDemux(&data);
  if (demuxer == nullptr) return 1;
  WebPChunkIterator chunk;
  int out = 1;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) != 0) {
    out = exif_orientation({chunk.chunk.bytes, chunk.chunk.size});
    WebPDemuxReleaseChunkIterator(&chunk);
  }
  WebPDemuxDelete(demuxer);
  return out;
}

}  // namespace

DecodedImage decode_webp(Bytes file, const DecodeOptions& options, std::string_view name) {
  WebPDecoderConfig config;
  require(ErrorKind::data, WebPInitDecoderConfig(&config) != 0, name, ": libwebp has another version than its headers");
  check(WebPGetFeatures(file.data(), file.size(), &config.input), file, name);
  check_size(config.input.height, config.input.width, options.max_pixels, name);
  require(ErrorKind::data, config.input.has_animation == 0, name, ": animated WebP images are not supported");
  Pixels out(config.input.height, config.input.width, config.input.has_alpha != 0 ? 4 : 3);
  config.output.colorspace = out.channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out.data();
  config.output.u.RGBA.stride = static_cast<int>(out.row_bytes());
  config.output.u.RGBA.size = out.row_bytes() * static_cast<std::size_t>(out.height);
  const VP8StatusCode status = WebPDecode(file.data(), file.size(), &config);
  WebPFreeDecBuffer(&config.output);
  check(status, file, name);
  return {std::move(out), options.orient ? orientation_of(file) : 1};
}

}  // namespace karez::data
