// UCX exchange: the messages that the two sides of a UCX wire send over its socket.
//
// First each side sends its UCX address; at the end, a side that closes cleanly sends the number of bytes that it has
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "karez/comm/namespace.h"

namespace karez::comm {

// Sends a UCX address, the first data on the socket. Throws Error (kind peer).
void send_ucx_address(int socket, std::span<const std::byte> address);

// Parses what the peer sends; used by one thread.
class UcxExchange {
 public:
  void append(std::span<const std::byte> bytes);
  bool is_invalid() const;  // the data does not begin with an address; call before take_address() has returned one
  std::optional<std::vector<std::byte>> take_address();  // once it has arrived completely
  std::optional<std::int64_t> bytes_written() const;     // by the peer; call after take_address()

 private:
  std::vector<std::byte> bytes_;  // not taken yet
};

}  // namespace karez::comm
