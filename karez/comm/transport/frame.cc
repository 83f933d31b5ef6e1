// Encodes and decodes frames; decoding checks every number.
#include "karez/comm/transport/frame.h"

#include <bit>
#include <cstring>

#include "karez/base/cat.h"

namespace karez::comm {
static_assert(std::endian::native == std::endian::little, "frames are copied in native byte order");

void encode(const Frame& frame, std::byte* into) {
  auto kind = static_cast<std::uint32_t>(frame.kind);
  std::memcpy(into, &kind, 4);
  std::memcpy(into + 4, &frame.length, 4);
  std::memcpy(into + 8, &frame.channel, 8);
  std::memcpy(into + 16, &frame.size, 8);
}

bool decode(const std::byte* from, Frame& frame, std::string& reason) {
  std::uint32_t kind = 0;
  std::memcpy(&kind, from, 4);
  std::memcpy(&frame.length, from + 4, 4);
  std::memcpy(&frame.channel, from + 8, 8);
  std::memcpy(&frame.size, from + 16, 8);
  frame.kind = static_cast<Frame::Kind>(kind);
  if (kind < 1 || kind > 3) {
    reason = cat("a frame of unknown kind ", kind);
  } else if (frame.size < 0 || frame.size > Frame::max_size) {
    reason = cat("a frame for a message of ", frame.size, " bytes");
  } else if (kind == 1 && frame.length > Frame::max_credits) {
    reason = cat("a credit for ", frame.length, " more receives, which exceeds the limit of ", Frame::max_credits);
  } else if (kind == 2 && (frame.length > Frame::max_length || frame.length > frame.size ||
                           (frame.length == 0 && frame.size != 0))) {
    reason = cat("a frame with ", frame.length, " bytes of a message of ", frame.size, " bytes");
  } else if (kind == 3 && (frame.length != 0 || frame.size != 0)) {
    reason = cat("a close frame with length ", frame.length, " and size ", frame.size, ", which must both be 0");
  } else {
    return true;
  }
  return false;
}

}  // namespace karez::comm
