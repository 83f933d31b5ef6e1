// Fuzzes the store with arbitrary bytes from three clients. Each request must have at most one reply, and each encoded
// reply must decode to the same reply. Clients that send invalid bytes are dropped.
#include "karez/comm/rendezvous/store.h"

#include <map>

#include "karez/base/error.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {
namespace {
using namespace comm;
using base::Error;

// Counts the complete requests at the beginning of a client's bytes, without the store's code.
std::size_t requests_in(std::string_view bytes) {
  std::size_t count = 0;
  while (bytes.size() >= 16) {
    const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
    auto word = [at](int i) {
      return at[4 * i] | at[4 * i + 1] << 8 | at[4 * i + 2] << 16 | std::size_t{at[4 * i + 3]} << 24;
    };
    std::size_t request_bytes = 16 + word(1) + word(2);
    if (bytes.size() < request_bytes) break;
    bytes.remove_prefix(request_bytes);
    ++count;
  }
  return count;
}
}  // namespace

// The input is a sequence of messages: a byte that selects the client (from 250 on, the client leaves afterwards), a
// byte with the length, and the message.
void fuzz_store(std::string_view bytes) {
  try {
    std::string_view rest = bytes;  // also decode the bytes as replies
    for (StoreReply reply; decode(rest, reply);) {}
  } catch (const Error&) {}
  std::map<Store::Client, std::string> messages;
  std::map<Store::Client, std::size_t> reply_counts;
  Store store([&](Store::Client client, const StoreReply& reply) {
    ++reply_counts[client];
    std::string text = encode(reply);
    std::string_view rest = text;
    StoreReply second_reply;
    check_invariant(decode(rest, second_reply) && rest.empty() && second_reply.status == reply.status &&
                        second_reply.value == reply.value,
                    "a reply is decoded to a different reply");
  });
  for (Store::Client client : {0, 1, 2}) store.join(client);
  std::map<Store::Client, bool> dropped;
  while (bytes.size() >= 2) {
    Store::Client client = static_cast<unsigned char>(bytes[0]) % 3;
    std::string_view piece = bytes.substr(2, static_cast<unsigned char>(bytes[1]));
    bool leaves = static_cast<unsigned char>(bytes[0]) >= 250;
    bytes.remove_prefix(2 + piece.size());
    if (dropped[client]) continue;
    try {
      messages[client] += piece;
      store.take(client, piece);
    } catch (const Error&) { leaves = true; }
    if (leaves) store.leave(client);
    dropped[client] = leaves;
  }
  for (const auto& [client, count] : reply_counts)
    check_invariant(count <= requests_in(messages[client]), "a client got more replies than it sent requests");
}

}  // namespace karez::tests
