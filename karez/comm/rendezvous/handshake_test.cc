// Tests of the handshake: two sides with the same token succeed; a wrong token, changed bytes and replays are rejected.
#include "karez/comm/rendezvous/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "karez/base/test_error.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {
namespace {
using ::testing::HasSubstr;

Token make_token(int number) {
  Token out;
  out.bytes[0] = static_cast<std::byte>(number);
  return out;
}

// Exchanges the bytes of both sides until neither side has more to send.
void exchange(Handshake& initiator, Handshake& responder) {
  for (bool more = true; more;) {
    more = false;
    for (auto [from, to] : {std::pair{&initiator, &responder}, std::pair{&responder, &initiator}}) {
      std::vector<std::byte> bytes = from->to_send();
      if (bytes.empty()) continue;
      more = true;
      to->take(bytes);
    }
  }
}

TEST(Handshake, TwoSidesWithTheSameTokenSucceed) {
  Handshake initiator = Handshake::initiator(make_token(1), "store", 17),
            responder = Handshake::responder(make_token(1), "store");
  EXPECT_FALSE(initiator.done() || responder.done());
  exchange(initiator, responder);
  EXPECT_TRUE(initiator.done());
  EXPECT_TRUE(responder.done());
  EXPECT_EQ(responder.initiator_number(), 17u);
}

TEST(Handshake, NeitherSideTakesMoreThan64BytesBeforeTheHandshakeIsDone) {
  Handshake initiator = Handshake::initiator(make_token(1), "store", 1),
            responder = Handshake::responder(make_token(1), "store");
  EXPECT_EQ(initiator.expected_bytes(), 64u);
  EXPECT_EQ(responder.expected_bytes(), 32u);
  std::vector<std::byte> too_many_bytes(65);
  EXPECT_THAT(error_of([&] { initiator.take(too_many_bytes); }), HasSubstr("65 bytes, but expects at most 64 bytes"));
  std::vector<std::byte> hello = initiator.to_send();
  EXPECT_EQ(hello.size(), 32u);
  responder.take(std::span(hello).first(31));
  EXPECT_EQ(responder.expected_bytes(), 1u);
  EXPECT_TRUE(responder.to_send().empty());
  responder.take(std::span(hello).last(1));
  EXPECT_EQ(responder.to_send().size(), 64u);
  EXPECT_EQ(responder.expected_bytes(), 32u);
}

TEST(Handshake, ASideWithoutTheTokenIsDetectedByTheOtherSide) {
  Handshake initiator = Handshake::initiator(make_token(1), "store", 1),
            responder = Handshake::responder(make_token(2), "store");
  EXPECT_THAT(error_of([&] { exchange(initiator, responder); }), HasSubstr("does not have this world's token"));
  EXPECT_FALSE(initiator.done() || responder.done());

  Handshake second_responder = Handshake::responder(make_token(2), "store"),
            guesser = Handshake::initiator(make_token(1), "store", 1);
  second_responder.take(guesser.to_send());
  second_responder.to_send();
  EXPECT_THAT(error_of([&] { second_responder.take(std::vector<std::byte>(32, std::byte{9})); }),
              HasSubstr("does not have this world's token"));
  EXPECT_FALSE(second_responder.done());
}

TEST(Handshake, ThePurposeIsPartOfTheProof) {
  Handshake initiator = Handshake::initiator(make_token(1), "rank 1", 1),
            responder = Handshake::responder(make_token(1), "rank 2");
  EXPECT_THAT(error_of([&] { exchange(initiator, responder); }), HasSubstr("does not have"));
}

TEST(Handshake, AChangedByteInvalidatesTheProof) {
  for (std::size_t position = 0; position < 128; position += 5) {
    Handshake initiator = Handshake::initiator(make_token(1), "store", 1),
              responder = Handshake::responder(make_token(1), "store");
    std::vector<std::byte> hello = initiator.to_send();
    if (position < 32) hello[position] ^= std::byte{1};
    responder.take(hello);
    std::vector<std::byte> answer = responder.to_send();
    if (position >= 32 && position < 96) answer[position - 32] ^= std::byte{1};
    std::string message = error_of([&] {
      initiator.take(answer);
      std::vector<std::byte> last = initiator.to_send();
      if (position >= 96) last[position - 96] ^= std::byte{1};
      responder.take(last);
    });
    EXPECT_THAT(message, HasSubstr("does not have")) << "byte " << position;
    EXPECT_FALSE(responder.done()) << "byte " << position;
  }
}

TEST(Handshake, AReplayIsRejected) {
  Handshake initiator = Handshake::initiator(make_token(1), "store", 1),
            responder = Handshake::responder(make_token(1), "store");
  std::vector<std::byte> hello = initiator.to_send();
  responder.take(hello);
  std::vector<std::byte> answer = responder.to_send();
  initiator.take(answer);
  std::vector<std::byte> last = initiator.to_send();
  responder.take(last);
  ASSERT_TRUE(responder.done());

  // An attacker replays the bytes of the initiator or of the responder.
  Handshake new_responder = Handshake::responder(make_token(1), "store");
  new_responder.take(hello);
  new_responder.to_send();
  EXPECT_THAT(error_of([&] { new_responder.take(last); }), HasSubstr("does not have"));
  Handshake new_initiator = Handshake::initiator(make_token(1), "store", 1);
  EXPECT_THAT(error_of([&] { new_initiator.take(answer); }), HasSubstr("does not have"));
}

// An attacker returns the responder's own proof, which is valid for the other direction only.
TEST(Handshake, AReflectedProofIsRejected) {
  Handshake responder = Handshake::responder(make_token(1), "store");
  std::vector<std::byte> hello(32, std::byte{5});
  responder.take(hello);
  std::vector<std::byte> answer = responder.to_send();
  EXPECT_THAT(error_of([&] { responder.take(std::span(answer).last(32)); }), HasSubstr("does not have"));
}

// The server closes the first connections before it answers, like an acceptor with too many connections.
TEST(DialAndAuthenticate, ARejectionBeforeTheAnswerIsRetriedButAWrongTokenIsNot) {
  for (const int token : {1, 2}) {
    Address address;
    const Descriptor listener = listen_at(address, 8);
    std::atomic<int> connection_count{0};
    std::thread server([&] {
      while (connection_count < 3) {
        Descriptor socket = accept_at(listener.get());
        if (!socket) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          continue;
        }
        if (++connection_count < 3) continue;  // closed
        Handshake handshake = Handshake::responder(make_token(1), "test");
        std::byte bytes[Handshake::max_bytes];
        while (!handshake.done()) {
          const auto step = std::span(bytes).first(handshake.expected_bytes());
          if (error_of([&] { receive_all(socket.get(), step, Seconds(5)); }) != "no error") return;
          handshake.take(step);
          send_all(socket.get(), handshake.to_send(), Seconds(5));
        }
      }
    });
    const std::string message =
        error_of([&] { dial_and_authenticate("the acceptor", address, make_token(token), "test", 4, Seconds(10)); });
    server.join();
    EXPECT_EQ(connection_count, 3);
    EXPECT_EQ(message, token == 1
                           ? "no error"
                           : cat("the acceptor at ", print(address), ": the peer does not have this world's token"));
  }
}

}  // namespace
}  // namespace karez::comm
