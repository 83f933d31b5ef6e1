// Handshake and acceptor: a peer with the token is accepted; garbage, replays, slow and too many connections are
// rejected at little cost.
#include "karez/comm/handshake.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <unistd.h>
#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "karez/base/error.h"
#include "karez/comm/acceptor.h"
#include "karez/comm/test_links.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::HasSubstr;

Token token_of(int number) {
  Token out;
  out.bytes[0] = static_cast<std::byte>(number);
  return out;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

// Exchanges the bytes of both sides until neither has more to send.
void talk(Handshake& initiator, Handshake& responder) {
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

// --- tokens

TEST(Token, PrintsAndReadsBack) {
  Token token = random_token();
  EXPECT_EQ(print(token).size(), 64u);
  EXPECT_EQ(parse_token(print(token)), token);
  EXPECT_FALSE(random_token() == token);
}

TEST(Token, AnInvalidTokenIsRejectedAndNotQuoted) {
  std::string good = print(random_token());
  for (const std::string& bad :
       std::vector<std::string>{"", good.substr(1), good + "0", "x" + good.substr(1), good.substr(0, 32), "secret"}) {
    std::string message = error_of([&] { parse_token(bad); });
    EXPECT_THAT(message, HasSubstr("a token is 64 hexadecimal digits")) << bad;
    if (!bad.empty()) { EXPECT_EQ(message.find(bad), std::string::npos); }
  }
}

TEST(Token, DerivedFromALaunchersSecretIsAlwaysTheSame) {
  EXPECT_EQ(derive_token("0123456789abcdef"), derive_token("0123456789abcdef"));
  EXPECT_FALSE(derive_token("0123456789abcdef") == derive_token("0123456789abcdeg"));
  EXPECT_THROW(derive_token("short"), Error);
}

// RFC 4231, test case 1, with its key of 20 bytes padded by zeros as HMAC itself pads it.
TEST(Token, ProofsAreHmacSha256) {
  Token key;
  for (int i = 0; i < 20; ++i) key.bytes[static_cast<std::size_t>(i)] = std::byte{0x0b};
  std::string text = "Hi There";
  EXPECT_EQ(print(Token{hmac_sha256(key, std::as_bytes(std::span(text)))}),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

// --- the handshake, without sockets

TEST(Handshake, TwoSidesWithTheSameTokenSucceed) {
  Handshake initiator = Handshake::initiator(token_of(1), "store", 17),
            responder = Handshake::responder(token_of(1), "store");
  EXPECT_FALSE(initiator.done() || responder.done());
  talk(initiator, responder);
  EXPECT_TRUE(initiator.done());
  EXPECT_TRUE(responder.done());
  EXPECT_EQ(responder.who(), 17u);
}

TEST(Handshake, NeitherSideTakesMoreThan64BytesBeforeItIsDone) {
  Handshake initiator = Handshake::initiator(token_of(1), "store", 1),
            responder = Handshake::responder(token_of(1), "store");
  EXPECT_EQ(initiator.wanted(), 64u);
  EXPECT_EQ(responder.wanted(), 32u);
  std::vector<std::byte> much(65);
  EXPECT_THAT(error_of([&] { initiator.take(much); }), HasSubstr("65 bytes, but expects at most 64 bytes"));
  std::vector<std::byte> hello = initiator.to_send();
  EXPECT_EQ(hello.size(), 32u);
  responder.take(std::span(hello).first(31));
  EXPECT_EQ(responder.wanted(), 1u);
  EXPECT_TRUE(responder.to_send().empty());
  responder.take(std::span(hello).last(1));
  EXPECT_EQ(responder.to_send().size(), 64u);
  EXPECT_EQ(responder.wanted(), 32u);
}

TEST(Handshake, ASideWithoutTheTokenIsDetectedByTheOther) {
  Handshake initiator = Handshake::initiator(token_of(1), "store", 1),
            responder = Handshake::responder(token_of(2), "store");
  EXPECT_THAT(error_of([&] { talk(initiator, responder); }), HasSubstr("does not have this world's token"));
  EXPECT_FALSE(initiator.done() || responder.done());

  Handshake real = Handshake::responder(token_of(2), "store"), guess = Handshake::initiator(token_of(1), "store", 1);
  real.take(guess.to_send());
  real.to_send();
  EXPECT_THAT(error_of([&] { real.take(std::vector<std::byte>(32, std::byte{9})); }),
              HasSubstr("does not have this world's token"));
  EXPECT_FALSE(real.done());
}

TEST(Handshake, APurposeIsPartOfTheProof) {
  Handshake initiator = Handshake::initiator(token_of(1), "rank 1", 1),
            responder = Handshake::responder(token_of(1), "rank 2");
  EXPECT_THAT(error_of([&] { talk(initiator, responder); }), HasSubstr("does not have"));
}

TEST(Handshake, AChangedByteInvalidatesTheProof) {
  for (std::size_t at = 0; at < 128; at += 5) {
    Handshake initiator = Handshake::initiator(token_of(1), "store", 1),
              responder = Handshake::responder(token_of(1), "store");
    std::vector<std::byte> hello = initiator.to_send();
    if (at < 32) hello[at] ^= std::byte{1};
    responder.take(hello);
    std::vector<std::byte> answer = responder.to_send();
    if (at >= 32 && at < 96) answer[at - 32] ^= std::byte{1};
    std::string message = error_of([&] {
      initiator.take(answer);
      std::vector<std::byte> last = initiator.to_send();
      if (at >= 96) last[at - 96] ^= std::byte{1};
      responder.take(last);
    });
    EXPECT_THAT(message, HasSubstr("does not have")) << "byte " << at;
    EXPECT_FALSE(responder.done()) << "byte " << at;
  }
}

TEST(Handshake, AReplayIsRejected) {
  Handshake initiator = Handshake::initiator(token_of(1), "store", 1),
            responder = Handshake::responder(token_of(1), "store");
  std::vector<std::byte> hello = initiator.to_send();
  responder.take(hello);
  std::vector<std::byte> answer = responder.to_send();
  initiator.take(answer);
  std::vector<std::byte> last = initiator.to_send();
  responder.take(last);
  ASSERT_TRUE(responder.done());

  Handshake again = Handshake::responder(token_of(1), "store");  // an attacker replays the initiator's bytes
  again.take(hello);
  again.to_send();
  EXPECT_THAT(error_of([&] { again.take(last); }), HasSubstr("does not have"));
  Handshake fresh = Handshake::initiator(token_of(1), "store", 1);  // or the responder's
  EXPECT_THAT(error_of([&] { fresh.take(answer); }), HasSubstr("does not have"));
}

// An attacker lets the responder prove itself and returns that proof, which is valid for the other direction only.
TEST(Handshake, AReflectedProofIsRejected) {
  Handshake responder = Handshake::responder(token_of(1), "store");
  std::vector<std::byte> hello(32, std::byte{5});
  responder.take(hello);
  std::vector<std::byte> answer = responder.to_send();
  EXPECT_THAT(error_of([&] { responder.take(std::span(answer).last(32)); }), HasSubstr("does not have"));
}

// --- the acceptor

class AcceptorTest : public ::testing::Test {
 protected:
  AcceptorTest() {
    acceptor = std::make_unique<Acceptor>(
        reactor, Address{}, token_of(1), "test",
        [this](Descriptor socket, std::uint32_t who) {
          last_who = who;
          ++accepted;
          std::byte there{7};
          send_all(socket.get(), {&there, 1}, Seconds(1));
          socket.close();
        },
        AcceptorLimits{.half_open = 16, .handshake = Seconds(0.4)});
  }
  // "no error" if the peer is accepted, otherwise the error.
  std::string try_connect(const Token& token, std::uint32_t who) {
    return error_of([&] {
      Descriptor socket = dial(acceptor->address(), Seconds(5));
      authenticate(socket.get(), token, "test", who, Seconds(5));
      std::byte there{};
      receive_all(socket.get(), {&there, 1}, Seconds(5));
    });
  }
  // Whether the other side closes the connection in time.
  static bool closed(int socket, double seconds = 5) {
    return await(
        [&] {
          std::byte any[64];
          auto n = recv(socket, any, sizeof any, 0);
          return n == 0 || (n < 0 && errno != EAGAIN);
        },
        seconds);
  }
  static std::size_t descriptors() {
    namespace fs = std::filesystem;
    return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
  }

  Reactor reactor;
  std::unique_ptr<Acceptor> acceptor;
  std::atomic<int> accepted{0};
  std::atomic<std::uint32_t> last_who{0};
};

TEST_F(AcceptorTest, APeerWithTheTokenIsAccepted) {
  EXPECT_EQ(try_connect(token_of(1), 42), "no error");
  EXPECT_EQ(last_who, 42u);
  EXPECT_EQ(acceptor->rejected(), 0);
}

TEST_F(AcceptorTest, AWrongTokenIsRejectedAndOthersAreStillAccepted) {
  EXPECT_THAT(try_connect(token_of(2), 1), HasSubstr("does not have this world's token"));
  EXPECT_TRUE(await([&] { return acceptor->rejected() == 1; }));
  EXPECT_EQ(accepted, 0);
  EXPECT_EQ(try_connect(token_of(1), 3), "no error");
}

TEST_F(AcceptorTest, GarbageIsRejected) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    Descriptor socket = dial(acceptor->address(), Seconds(5));
    std::vector<std::byte> bytes(64 + random() % 1000);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    send_all(socket.get(), bytes, Seconds(5));
    EXPECT_TRUE(closed(socket.get())) << trial;
  }
  EXPECT_EQ(accepted, 0);
  EXPECT_TRUE(await([&] { return acceptor->rejected() == 20; }));
}

TEST_F(AcceptorTest, ASilentConnectionIsClosedAfterTheTimeout) {
  auto begin = std::chrono::steady_clock::now();
  Descriptor silent = dial(acceptor->address(), Seconds(5)), half = dial(acceptor->address(), Seconds(5));
  std::vector<std::byte> some(31);
  send_all(half.get(), some, Seconds(5));
  EXPECT_TRUE(closed(silent.get()));
  EXPECT_TRUE(closed(half.get()));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(350));
  EXPECT_EQ(acceptor->rejected(), 2);
}

TEST_F(AcceptorTest, AThousandHalfOpenConnectionsBlockNoPeerAndLeakNothing) {
  std::size_t before = descriptors();
  {
    std::vector<Descriptor> strangers;
    for (int i = 0; i < 1000; ++i) strangers.push_back(dial(acceptor->address(), Seconds(5)));
    EXPECT_EQ(try_connect(token_of(1), 1), "no error");
    EXPECT_LE(descriptors(), before + 1000 + 16 + 2) << "the acceptor keeps at most 16 open";
    EXPECT_TRUE(await([&] { return acceptor->rejected() >= 1000 - 16; }));
    EXPECT_TRUE(await([&] { return acceptor->rejected() == 1000; })) << "the last ones after their timeout";
  }
  EXPECT_TRUE(await([&] { return descriptors() == before; }))
      << descriptors() << " descriptors, " << before << " before";
  EXPECT_EQ(try_connect(token_of(1), 1), "no error");
}

TEST_F(AcceptorTest, AConnectionWaitsWhileNoDescriptorIsLeftAndTheListenerDoesNotSpin) {
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const Descriptor highest(open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit low = old;
  low.rlim_cur = static_cast<rlim_t>(highest.get()) + 2;  // one more: the client's
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  Descriptor client = dial(acceptor->address(), Seconds(5));
  const std::clock_t begin = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double busy = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(accepted, 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_LT(busy, 0.1) << "seconds of processor time in 0.3";
  EXPECT_EQ(error_of([&] { authenticate(client.get(), token_of(1), "test", 5, Seconds(5)); }), "no error");
  EXPECT_TRUE(await([&] { return accepted == 1; }));
  EXPECT_EQ(try_connect(token_of(1), 1), "no error");
}

TEST_F(AcceptorTest, ABurstOfMoreRanksThanTheLimitIsAccepted) {
  std::vector<std::thread> all;
  std::atomic<int> failed{0};
  for (int i = 0; i < 64; ++i)
    all.emplace_back([&, i] {
      failed += error_of([&] {
                  dial_and_authenticate("the acceptor", acceptor->address(), token_of(1), "test",
                                        static_cast<std::uint32_t>(i), Seconds(20));
                }) != "no error";
    });
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_TRUE(await([&] { return accepted >= 64; })) << accepted;
}

TEST_F(AcceptorTest, ASilentConnectionIsClosedBeforeAnIdentifiedOne) {
  acceptor = std::make_unique<Acceptor>(
      reactor, Address{}, token_of(1), "test", [this](Descriptor, std::uint32_t who) { last_who = who; },
      AcceptorLimits{.half_open = 16, .handshake = Seconds(100)});  // longer than this test
  Descriptor honest = dial(acceptor->address(), Seconds(5));
  Handshake handshake = Handshake::initiator(token_of(1), "test", 9);
  send_all(honest.get(), handshake.to_send(), Seconds(5));
  std::byte answer[Handshake::max_bytes];
  receive_all(honest.get(), std::span(answer).first(handshake.wanted()), Seconds(5));
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(dial(acceptor->address(), Seconds(5)));
  ASSERT_TRUE(await([&] { return acceptor->rejected() >= 40 - 15; }));
  handshake.take(answer);
  send_all(honest.get(), handshake.to_send(), Seconds(5));
  EXPECT_TRUE(await([&] { return last_who == 9u; }));
}

TEST_F(AcceptorTest, RejectsAConnectionWhenAllOthersAreIdentified) {
  acceptor = std::make_unique<Acceptor>(
      reactor, Address{}, token_of(1), "test", [this](Descriptor, std::uint32_t) { ++accepted; },
      AcceptorLimits{.half_open = 4, .handshake = Seconds(100)});
  struct Honest {
    Descriptor socket;
    Handshake handshake;
    std::vector<std::byte> answer;
  };
  std::vector<Honest> all;
  for (std::uint32_t who = 0; who < 4; ++who) {
    Honest& one = all.emplace_back(
        Honest{dial(acceptor->address(), Seconds(5)), Handshake::initiator(token_of(1), "test", who), {}});
    send_all(one.socket.get(), one.handshake.to_send(), Seconds(5));
    one.answer.resize(one.handshake.wanted());
    receive_all(one.socket.get(), one.answer, Seconds(5));
  }
  const Descriptor late = dial(acceptor->address(), Seconds(5));
  EXPECT_TRUE(closed(late.get()));
  EXPECT_EQ(acceptor->rejected(), 1);
  for (Honest& one : all) {
    one.handshake.take(one.answer);
    send_all(one.socket.get(), one.handshake.to_send(), Seconds(5));
  }
  EXPECT_TRUE(await([&] { return accepted == 4; })) << accepted;
}

// An acceptor that closes the first connections before it answers, as if it had too many.
TEST(DialAndAuthenticate, RetriesAfterARejectionBeforeTheReplyButNotAfterAWrongToken) {
  for (const int token : {1, 2}) {
    Address address;
    const Descriptor listener = listen_at(address, 8);
    std::atomic<int> came{0};
    std::thread server([&] {
      while (came < 3) {
        Descriptor socket = accept_at(listener.get());
        if (!socket) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          continue;
        }
        if (++came < 3) continue;  // closed
        Handshake handshake = Handshake::responder(token_of(1), "test");
        std::byte bytes[Handshake::max_bytes];
        while (!handshake.done()) {
          const auto wanted = std::span(bytes).first(handshake.wanted());
          if (error_of([&] { receive_all(socket.get(), wanted, Seconds(5)); }) != "no error") return;
          handshake.take(wanted);
          send_all(socket.get(), handshake.to_send(), Seconds(5));
        }
      }
    });
    const std::string message =
        error_of([&] { dial_and_authenticate("the acceptor", address, token_of(token), "test", 4, Seconds(10)); });
    server.join();
    EXPECT_EQ(came, 3);
    EXPECT_EQ(message, token == 1
                           ? "no error"
                           : cat("the acceptor at ", print(address), ": the peer does not have this world's token"));
  }
}

TEST_F(AcceptorTest, AnAcceptorMayCloseWhileConnectionsArePending) {
  Descriptor silent = dial(acceptor->address(), Seconds(5));
  std::vector<std::byte> some(3);
  send_all(silent.get(), some, Seconds(5));
  acceptor.reset();
  EXPECT_TRUE(closed(silent.get()));
}

TEST(Sockets, AddressesPrintAndReadBack) {
  for (std::string text : {"127.0.0.1:4711", "[::1]:80", "10.0.0.1:0", "@karez-x"})
    EXPECT_EQ(print(parse_address(text)), text);
  for (std::string text : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "localhost:1", "1.2.3:4",
                           "127.0.0.1:99999999999"})
    EXPECT_THROW(parse_address(text), Error) << text;
}

TEST(Sockets, AnAddressWithoutAListenerIsAnErrorThatNamesIt) {
  Address address;
  { Descriptor gone = listen_at(address, 1); }
  EXPECT_THAT(error_of([&] { dial(address, Seconds(1)); }), HasSubstr(cat("cannot reach ", print(address))));
  EXPECT_THAT(error_of([&] {
                dial({"@karez-no-listener", 0}, Seconds(1));
              }),
              HasSubstr("cannot reach @karez-no-listener"));
}

}  // namespace
}  // namespace karez::comm
