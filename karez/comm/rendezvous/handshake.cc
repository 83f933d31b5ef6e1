// Implements the handshake: the steps of both sides, and the initiator's side over a socket.
#include "karez/comm/rendezvous/handshake.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "karez/base/error.h"

namespace karez::comm {

Handshake Handshake::initiator(const Token& token, std::string purpose, std::uint32_t number) {
  Handshake out(token, std::move(purpose), true);
  std::memcpy(out.initiator_hello_.data(), &number, sizeof number);
  fill_random(std::span(out.initiator_hello_).subspan(sizeof number));
  out.out_.assign(out.initiator_hello_.begin(), out.initiator_hello_.end());
  return out;
}

Handshake Handshake::responder(const Token& token, std::string purpose) {
  Handshake out(token, std::move(purpose), false);
  fill_random(out.responder_nonce_);
  return out;
}

std::vector<std::byte> Handshake::to_send() { return std::exchange(out_, {}); }

std::size_t Handshake::expected_bytes() const {
  if (done_) return 0;
  return (initiates_ ? 64 : 32) - in_.size();
}

std::uint32_t Handshake::initiator_number() const {
  std::uint32_t number = 0;
  std::memcpy(&number, initiator_hello_.data(), sizeof number);
  return number;
}

Bytes32 Handshake::proof(std::string_view side) const {
  std::string text = cat("karez 1 ", side, " ", purpose_.size(), " ", purpose_, " ");
  text.append(reinterpret_cast<const char*>(initiator_hello_.data()), initiator_hello_.size());
  text.append(reinterpret_cast<const char*>(responder_nonce_.data()), responder_nonce_.size());
  return hmac_sha256(token_, std::as_bytes(std::span(text)));
}

void Handshake::take(std::span<const std::byte> bytes) {
  require(ErrorKind::peer, bytes.size() <= expected_bytes(), "a handshake step got ", bytes.size(),
          " bytes, but expects at most ", expected_bytes(), " bytes");
  in_.insert(in_.end(), bytes.begin(), bytes.end());
  if (done_ || expected_bytes() > 0) return;
  if (!initiates_ && !hello_received_) {
    std::copy(in_.begin(), in_.end(), initiator_hello_.begin());
    in_.clear();
    hello_received_ = true;
    Bytes32 own_proof = proof("answers");
    out_.assign(responder_nonce_.begin(), responder_nonce_.end());
    out_.insert(out_.end(), own_proof.begin(), own_proof.end());
    return;
  }
  if (initiates_) std::copy_n(in_.begin(), 32, responder_nonce_.begin());
  Bytes32 peer_proof;
  std::copy(in_.end() - 32, in_.end(), peer_proof.begin());
  require(ErrorKind::peer, equal_in_constant_time(peer_proof, proof(initiates_ ? "answers" : "asks")),
          "the peer does not have this world's token");
  if (initiates_) {
    Bytes32 own_proof = proof("asks");
    out_.assign(own_proof.begin(), own_proof.end());
  }
  done_ = true;
}

Descriptor dial_and_authenticate(const std::string& name, const Address& address, const Token& token,
                                 const std::string& purpose, std::uint32_t number, Seconds timeout,
                                 const ListenerWait& wait) {
  using Clock = std::chrono::steady_clock;
  const auto wait_deadline = Clock::now() + wait.timeout;
  auto deadline = Clock::now() + timeout;
  bool connected = false;
  auto remaining = [&] { return std::max(Seconds(0.01), Seconds(deadline - Clock::now())); };
  for (auto pause = std::chrono::milliseconds(5);; pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
    Handshake handshake = Handshake::initiator(token, purpose, number);
    std::byte bytes[Handshake::max_bytes];
    Descriptor socket;
    try {
      socket = dial(address, connected ? remaining() : timeout);
      if (!std::exchange(connected, true)) deadline = Clock::now() + timeout;
      send_all(socket.get(), handshake.to_send(), remaining());
      receive_all(socket.get(), std::span(bytes).first(handshake.expected_bytes()), remaining());
    } catch (const Error& error) {
      const bool timed_out = Clock::now() + pause >= (connected ? deadline : wait_deadline);
      if (!socket && (timed_out || wait.timeout <= Seconds(0))) throw;
      if (timed_out) fail(ErrorKind::peer, name, " at ", print(address), ": ", error.what());
      if (!connected && wait.while_waiting) wait.while_waiting();
      std::this_thread::sleep_for(pause);
      continue;
    }
    try {
      handshake.take(bytes);
      send_all(socket.get(), handshake.to_send(), remaining());
    } catch (const Error& error) { fail(ErrorKind::peer, name, " at ", print(address), ": ", error.what()); }
    return socket;
  }
}

}  // namespace karez::comm
