// Fuzzes a handshake with arbitrary bytes from the other side. The handshake must never succeed without the token, and
// must take at most 64 bytes.
#include "karez/comm/rendezvous/handshake.h"

#include "karez/base/error.h"
#include "tests/fuzz/targets.h"
#include "tests/namespace.h"

namespace karez::tests {

void fuzz_handshake(std::string_view bytes) {
  using namespace comm;
  if (bytes.empty()) return;
  bool initiates = bytes[0] % 2 != 0;
  std::size_t piece = 1 + static_cast<unsigned char>(bytes[0]) / 2;
  bytes.remove_prefix(1);
  Handshake handshake =
      initiates ? Handshake::initiator(random_token(), "store", 1) : Handshake::responder(random_token(), "store");
  std::size_t bytes_taken = 0, bytes_sent = handshake.to_send().size();
  try {
    while (!bytes.empty() && handshake.expected_bytes() > 0) {
      std::string_view step = bytes.substr(0, std::min(piece, handshake.expected_bytes()));
      handshake.take(std::as_bytes(std::span(step)));
      bytes.remove_prefix(step.size());
      bytes_taken += step.size();
      bytes_sent += handshake.to_send().size();
    }
    check_invariant(!handshake.done(), "a handshake succeeded without the token");
  } catch (const base::Error&) {}
  check_invariant(bytes_taken <= Handshake::max_bytes, "the handshake took more than 64 bytes");
  check_invariant(bytes_sent <= (initiates ? 32u : 64u),
                  "the handshake sent more bytes than it may before the other side's proof");
}

}  // namespace karez::tests
