// Tests of the acceptor: a peer with the token is accepted; garbage, slow connections and connections beyond the limit
// are rejected at little cost.
#include "karez/comm/rendezvous/acceptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "karez/base/test_error.h"
#include "karez/comm/rendezvous/test_authenticate.h"
#include "karez/comm/transport/test_links.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::HasSubstr;

Token make_token(int number) {
  Token out;
  out.bytes[0] = static_cast<std::byte>(number);
  return out;
}

class AcceptorTest : public ::testing::Test {
 protected:
  AcceptorTest() {
    acceptor = std::make_unique<Acceptor>(
        reactor, Address{}, make_token(1), "test",
        [this](Descriptor socket, std::uint32_t number) {
          last_number = number;
          ++accepted;
          std::byte reply{7};
          send_all(socket.get(), {&reply, 1}, Seconds(1));
          socket.close();
        },
        AcceptorLimits{.half_open = 16, .handshake = Seconds(0.4)});
  }
  // Returns "no error" if the peer is accepted, otherwise the error.
  std::string try_connect(const Token& token, std::uint32_t number) {
    return error_of([&] {
      Descriptor socket = dial(acceptor->address(), Seconds(5));
      authenticate(socket.get(), token, "test", number, Seconds(5));
      std::byte reply{};
      receive_all(socket.get(), {&reply, 1}, Seconds(5));
    });
  }
  // Returns true if the other side closes the connection in time.
  static bool is_closed(int socket, double seconds = 5) {
    return await(
        [&] {
          std::byte any[64];
          auto n = recv(socket, any, sizeof any, 0);
          return n == 0 || (n < 0 && errno != EAGAIN);
        },
        seconds);
  }
  static std::size_t count_descriptors() {
    namespace fs = std::filesystem;
    return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
  }

  Reactor reactor;
  std::unique_ptr<Acceptor> acceptor;
  std::atomic<int> accepted{0};
  std::atomic<std::uint32_t> last_number{0};
};

TEST_F(AcceptorTest, APeerWithTheTokenIsAccepted) {
  EXPECT_EQ(try_connect(make_token(1), 42), "no error");
  EXPECT_EQ(last_number, 42u);
  EXPECT_EQ(acceptor->rejected(), 0);
}

TEST_F(AcceptorTest, AWrongTokenIsRejectedAndLaterPeersAreAccepted) {
  EXPECT_THAT(try_connect(make_token(2), 1), HasSubstr("does not have this world's token"));
  EXPECT_TRUE(await([&] { return acceptor->rejected() == 1; }));
  EXPECT_EQ(accepted, 0);
  EXPECT_EQ(try_connect(make_token(1), 3), "no error");
}

TEST_F(AcceptorTest, GarbageIsRejected) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    Descriptor socket = dial(acceptor->address(), Seconds(5));
    std::vector<std::byte> bytes(64 + random() % 1000);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    send_all(socket.get(), bytes, Seconds(5));
    EXPECT_TRUE(is_closed(socket.get())) << trial;
  }
  EXPECT_EQ(accepted, 0);
  EXPECT_TRUE(await([&] { return acceptor->rejected() == 20; }));
}

TEST_F(AcceptorTest, ASilentConnectionIsClosedAfterTheTimeout) {
  auto begin = std::chrono::steady_clock::now();
  Descriptor silent = dial(acceptor->address(), Seconds(5)), incomplete = dial(acceptor->address(), Seconds(5));
  std::vector<std::byte> bytes(31);
  send_all(incomplete.get(), bytes, Seconds(5));
  EXPECT_TRUE(is_closed(silent.get()));
  EXPECT_TRUE(is_closed(incomplete.get()));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(350));
  EXPECT_EQ(acceptor->rejected(), 2);
}

TEST_F(AcceptorTest, AThousandHalfOpenConnectionsDoNotBlockPeersAndLeakNoDescriptors) {
  const std::size_t initial_count = count_descriptors();
  {
    std::vector<Descriptor> raw_clients;
    for (int i = 0; i < 1000; ++i) raw_clients.push_back(dial(acceptor->address(), Seconds(5)));
    EXPECT_EQ(try_connect(make_token(1), 1), "no error");
    EXPECT_LE(count_descriptors(), initial_count + 1000 + 16 + 2)
        << "the acceptor must keep at most 16 connections open";
    EXPECT_TRUE(await([&] { return acceptor->rejected() >= 1000 - 16; }));
    EXPECT_TRUE(await([&] { return acceptor->rejected() == 1000; }))
        << "the last connections must be rejected after their timeout";
  }
  EXPECT_TRUE(await([&] { return count_descriptors() == initial_count; }))
      << count_descriptors() << " descriptors, initially " << initial_count;
  EXPECT_EQ(try_connect(make_token(1), 1), "no error");
}

TEST_F(AcceptorTest, AConnectionWaitsWhileNoDescriptorIsLeftAndTheListenerDoesNotSpin) {
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const Descriptor highest(open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit low = old;
  low.rlim_cur = static_cast<rlim_t>(highest.get()) + 2;  // leaves one descriptor, for the client
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  Descriptor client = dial(acceptor->address(), Seconds(5));
  const std::clock_t begin = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double cpu_seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(accepted, 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_LT(cpu_seconds, 0.1) << "seconds of CPU time were used in 0.3 s, so the listener spins";
  EXPECT_EQ(error_of([&] { authenticate(client.get(), make_token(1), "test", 5, Seconds(5)); }), "no error");
  EXPECT_TRUE(await([&] { return accepted == 1; }));
  EXPECT_EQ(try_connect(make_token(1), 1), "no error");
}

TEST_F(AcceptorTest, MoreSimultaneousRanksThanTheLimitAreAccepted) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int i = 0; i < 64; ++i)
    threads.emplace_back([&, i] {
      failures += error_of([&] {
                    dial_and_authenticate("the acceptor", acceptor->address(), make_token(1), "test",
                                          static_cast<std::uint32_t>(i), Seconds(20));
                  }) != "no error";
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(await([&] { return accepted >= 64; })) << accepted;
}

TEST_F(AcceptorTest, ASilentConnectionIsClosedBeforeAnIdentifiedOne) {
  acceptor = std::make_unique<Acceptor>(
      reactor, Address{}, make_token(1), "test", [this](Descriptor, std::uint32_t number) { last_number = number; },
      AcceptorLimits{.half_open = 16, .handshake = Seconds(100)});  // longer than this test
  Descriptor identified = dial(acceptor->address(), Seconds(5));
  Handshake handshake = Handshake::initiator(make_token(1), "test", 9);
  send_all(identified.get(), handshake.to_send(), Seconds(5));
  std::byte answer[Handshake::max_bytes];
  receive_all(identified.get(), std::span(answer).first(handshake.expected_bytes()), Seconds(5));
  std::vector<Descriptor> raw_clients;
  for (int i = 0; i < 40; ++i) raw_clients.push_back(dial(acceptor->address(), Seconds(5)));
  ASSERT_TRUE(await([&] { return acceptor->rejected() >= 40 - 15; }));
  handshake.take(answer);
  send_all(identified.get(), handshake.to_send(), Seconds(5));
  EXPECT_TRUE(await([&] { return last_number == 9u; }));
}

TEST_F(AcceptorTest, ANewConnectionIsRejectedWhenAllPendingOnesAreIdentified) {
  acceptor = std::make_unique<Acceptor>(
      reactor, Address{}, make_token(1), "test", [this](Descriptor, std::uint32_t) { ++accepted; },
      AcceptorLimits{.half_open = 4, .handshake = Seconds(100)});
  struct Client {
    Descriptor socket;
    Handshake handshake;
    std::vector<std::byte> answer;
  };
  std::vector<Client> clients;
  for (std::uint32_t number = 0; number < 4; ++number) {
    Client& client = clients.emplace_back(
        Client{dial(acceptor->address(), Seconds(5)), Handshake::initiator(make_token(1), "test", number), {}});
    send_all(client.socket.get(), client.handshake.to_send(), Seconds(5));
    client.answer.resize(client.handshake.expected_bytes());
    receive_all(client.socket.get(), client.answer, Seconds(5));
  }
  const Descriptor late = dial(acceptor->address(), Seconds(5));
  EXPECT_TRUE(is_closed(late.get()));
  EXPECT_EQ(acceptor->rejected(), 1);
  for (Client& client : clients) {
    client.handshake.take(client.answer);
    send_all(client.socket.get(), client.handshake.to_send(), Seconds(5));
  }
  EXPECT_TRUE(await([&] { return accepted == 4; })) << accepted;
}

TEST_F(AcceptorTest, AnAcceptorMayCloseWhileConnectionsArePending) {
  Descriptor silent = dial(acceptor->address(), Seconds(5));
  std::vector<std::byte> bytes(3);
  send_all(silent.get(), bytes, Seconds(5));
  acceptor.reset();
  EXPECT_TRUE(is_closed(silent.get()));
}

}  // namespace
}  // namespace karez::comm
