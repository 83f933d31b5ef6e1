// The handshake: two processes show each other that they know the world's token, before either looks at anything else.
//
//   asker -> answerer   who it is (u32), 28 random bytes                                              32 bytes
//   answerer -> asker   32 random bytes, HMAC(token, "answers" + purpose + both of the above)         64 bytes
//   asker -> answerer   HMAC(token, "asks" + the same)                                                32 bytes
//
// So each side reads 64 bytes and no more before it knows. Old bytes played again do not fit the new random ones, and a
// proof made for one purpose or direction is none for another. What follows is neither encrypted nor signed
// (SECURITY.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/comm/socket.h"
#include "karez/comm/sodium.h"

namespace karez::comm {

// One side of it, without a socket.
class Handshake {
 public:
  static Handshake initiator(const Token& token, std::string purpose, std::uint32_t who);
  static Handshake responder(const Token& token, std::string purpose);
  static constexpr std::size_t most_bytes = 64;  // that it takes

  std::vector<std::byte> to_send();  // what is to be sent now; each byte once
  std::size_t wanted() const;        // bytes that are still to come in this step; no more may be read
  void take(std::span<const std::byte>
                bytes);  // at most as many; throws Error (kind peer) if the other side does not know the token
  bool done() const { return done_; }                      // once what is to be sent has been sent
  bool hello_received() const { return hello_received_; }  // of the side that answers: the asker has said who it is
  std::uint32_t who() const;                               // the asker; to be believed once it is done

 private:
  Handshake(const Token& token, std::string purpose, bool initiates)
      : token_(token),
        purpose_(std::move(purpose)),
        initiates_(initiates) {}
  Bytes32 proof(std::string_view side) const;

  Token token_;
  std::string purpose_;
  bool initiates_, done_ = false, hello_received_ = false;  // greeted_: the answerer has the asker's random bytes
  Bytes32 initiator_hello_{}, responder_nonce_{};
  std::vector<std::byte> in_, out_;
};

// Asks over a socket and waits for the end of it: throws Error (kind peer).
void authenticate(int socket, const Token& token, const std::string& purpose, std::uint32_t who, Seconds timeout);

// Connects to an address, which errors call by this name, and asks there. Where the connection is closed before the
// answer (an acceptor that has too many at once does that), it tries again, as long as `timeout` allows; `awaited`:
// also where nobody listens yet. Throws Error (kind peer).
Descriptor dial_and_authenticate(const std::string& name, const Address& address, const Token& token,
                                 const std::string& purpose, std::uint32_t who, Seconds timeout, bool awaited = false);

}  // namespace karez::comm
