// Fuzzes a handshake with any bytes from the other side: it never succeeds without the token, and takes at most 64
// bytes.
#include "karez/comm/handshake.h"

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
  std::size_t taken = 0, message = handshake.to_send().size();
  try {
    while (!bytes.empty() && handshake.wanted() > 0) {
      std::string_view step = bytes.substr(0, std::min(piece, handshake.wanted()));
      handshake.take(std::as_bytes(std::span(step)));
      bytes.remove_prefix(step.size());
      taken += step.size();
      message += handshake.to_send().size();
    }
    check_invariant(!handshake.done(), "a handshake succeeded without the token");
  } catch (const base::Error&) {}
  check_invariant(taken <= Handshake::max_bytes, "the handshake took more than 64 bytes");
  check_invariant(message <= (initiates ? 32u : 64u),
                  "the handshake sent more bytes than it may before the other side's proof");
}

}  // namespace karez::tests
