// Handshake: two processes prove to each other that they have the world's token, before any other data is exchanged.
//
//   initiator -> responder   hello: its number (u32) and 28 random bytes                                    32 bytes
//   responder -> initiator   nonce: 32 random bytes; HMAC(token, "answers" + purpose + hello + nonce)       64 bytes
//   initiator -> responder   HMAC(token, "asks" + purpose + hello + nonce)                                  32 bytes
//
// So each side reads at most 64 bytes before the other side is authenticated. Replayed bytes do not match the new
// random bytes, and a proof for one purpose or direction is not valid for another one. Data after the handshake is
// neither encrypted nor signed (SECURITY.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/comm/rendezvous/sodium.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {

// One side of the handshake, without a socket.
class Handshake {
 public:
  static Handshake initiator(const Token& token, std::string purpose, std::uint32_t number);
  static Handshake responder(const Token& token, std::string purpose);
  static constexpr std::size_t max_bytes = 64;  // maximum bytes of one step

  std::vector<std::byte> to_send();    // bytes to send now; each byte is returned once
  std::size_t expected_bytes() const;  // still missing in this step; no more may be read
  // Takes at most expected_bytes() bytes. Throws Error (kind peer) if the peer does not have the token.
  void take(std::span<const std::byte> bytes);
  bool done() const { return done_; }                      // once the bytes of to_send() are sent
  bool hello_received() const { return hello_received_; }  // in a responder: the initiator's number has arrived
  std::uint32_t initiator_number() const;                  // authentic once done() is true

 private:
  Handshake(const Token& token, std::string purpose, bool initiates)
      : token_(token),
        purpose_(std::move(purpose)),
        initiates_(initiates) {}
  Bytes32 proof(std::string_view side) const;

  Token token_;
  std::string purpose_;
  bool initiates_, done_ = false, hello_received_ = false;
  Bytes32 initiator_hello_{}, responder_nonce_{};
  std::vector<std::byte> in_, out_;
};

// The time to wait for a process that does not listen yet.
struct ListenerWait {
  Seconds timeout{0};
  std::function<void()> while_waiting = {};  // called between attempts; an exception from it ends the wait
};

// Connects to an address, which errors call `name`, and runs the initiator's side. If no process listens at the
// address, it retries for the time of `wait`. If the connection is closed before the answer, which an acceptor with too
// many connections does, it retries until `timeout` after the first connection. Throws Error (kind peer).
Descriptor dial_and_authenticate(const std::string& name, const Address& address, const Token& token,
                                 const std::string& purpose, std::uint32_t number, Seconds timeout,
                                 const ListenerWait& wait = {});

}  // namespace karez::comm
