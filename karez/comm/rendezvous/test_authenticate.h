// For tests: the initiator's side of the handshake over a socket that is already connected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/rendezvous/handshake.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {

// Throws Error (kind peer).
inline void authenticate(int socket, const Token& token, const std::string& purpose, std::uint32_t number,
                         Seconds timeout) {
  Handshake handshake = Handshake::initiator(token, purpose, number);
  std::byte bytes[Handshake::max_bytes];
  send_all(socket, handshake.to_send(), timeout);
  receive_all(socket, std::span(bytes).first(handshake.expected_bytes()), timeout);
  handshake.take(bytes);
  send_all(socket, handshake.to_send(), timeout);
}

}  // namespace karez::comm
