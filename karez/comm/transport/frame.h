// Frame: the unit that a connection writes to its wire: a 24-byte header and, for data, the bytes that follow it.
//
//   kind    u32  1 credit: `length` receives of unknown sizes and one receive of `size` bytes have been posted;
//                2 data: `length` bytes of a message of `size` bytes follow;
//                3 close: the sender has closed its end of the link and sends no more frames of this channel
//   length  u32
//   channel u64  number of the link within the connection
//   size    u64
//
// Numbers are little-endian. A message is sent as a sequence of data frames, an empty message as one frame of length 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "karez/comm/namespace.h"

namespace karez::comm {

struct Frame {
  enum class Kind : std::uint32_t { credit = 1, data = 2, close = 3 };
  Kind kind = Kind::credit;
  std::uint32_t length = 0;
  std::uint64_t channel = 0;
  std::int64_t size = 0;

  static constexpr std::size_t bytes = 24;
  static constexpr std::int64_t max_length =
      1 << 20;  // so that a long message does not delay other links of the connection
  static constexpr std::uint32_t max_credits = 1 << 13;            // in one frame
  static constexpr std::int64_t max_size = std::int64_t{1} << 40;  // of a message
};

void encode(const Frame& frame, std::byte* into);  // writes Frame::bytes bytes
// Reads Frame::bytes bytes. If they are not a valid frame, returns false and sets `reason`.
bool decode(const std::byte* from, Frame& frame, std::string& reason);

}  // namespace karez::comm
