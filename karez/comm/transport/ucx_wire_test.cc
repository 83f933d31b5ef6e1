// Tests of the UCX wire that do not apply to other wires; conformance_test.cc covers what all wires have in common.
#include "karez/comm/transport/ucx_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "karez/base/error.h"
#include "karez/comm/transport/test_links.h"
#include "karez/comm/transport/test_socket_pairs.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::HasSubstr;

std::string address_message(std::uint64_t magic, std::uint64_t length, const std::string& address) {
  std::string out(16, '\0');
  std::memcpy(&out[0], &magic, 8);
  std::memcpy(&out[8], &length, 8);
  return out + address;
}

TEST(UcxWire, AnInvalidAddressEndsTheConnection) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX library";
  constexpr std::uint64_t magic = 0x317863757a72616bull;
  for (const std::string& bytes :
       {address_message(1, 8, "12345678"), address_message(magic, 0, ""), address_message(magic, ~0ull, "x"),
        address_message(magic, (64 << 10) + 1, "x"), std::string(100, 'G')}) {
    auto sockets = socket_pair();
    Reactor reactor;
    Connection connection(reactor, make_ucx_wire(std::move(sockets[0]), true, "shm"), "rank 1");
    ASSERT_EQ(send(sockets[1].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
    ASSERT_TRUE(await([&] { return connection.failure() != nullptr; }));
    EXPECT_STREQ(connection.failure()->what(), "link to rank 1: the message contains no UCX address");
  }
}

// Two connections over UCX. The other ends of their sockets are in the test, which forwards the addresses byte by byte.
struct RelayedUcxPair {
  std::array<Descriptor, 2> sender_sockets = socket_pair(), receiver_sockets = socket_pair();
  Reactor reactor;
  Connection sender{reactor, make_ucx_wire(std::move(sender_sockets[0]), true, "shm"), "rank 1"},
      receiver{reactor, make_ucx_wire(std::move(receiver_sockets[0]), true, "shm"), "rank 0"};
  Notifier notifiers[2];
  RelayedUcxPair() {
    forward(sender_sockets[1].get(), receiver_sockets[1].get());
    forward(receiver_sockets[1].get(), sender_sockets[1].get());
  }
  static void forward(int from, int to) {
    char byte = 0;
    while (recv(from, &byte, 1, MSG_DONTWAIT) == 1) ASSERT_EQ(send(to, &byte, 1, MSG_NOSIGNAL), 1);
  }
};

TEST(UcxWire, AnAddressMayArriveInPieces) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX library";
  RelayedUcxPair pair;
  auto sender = pair.sender.open(1, 1, pair.notifiers[0]), receiver = pair.receiver.open(1, 1, pair.notifiers[1]);
  std::string from = "hello", to = ".....";
  receiver->post_receive(reinterpret_cast<std::byte*>(&to[0]), 5);
  sender->send(reinterpret_cast<const std::byte*>(&from[0]), 5);
  ASSERT_TRUE(await([&] { return receiver->received() == 1; }));
  EXPECT_EQ(to, "hello");
}

TEST(UcxWire, WrittenDataIsReadEvenIfTheSocketEndsFirst) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX library";
  RelayedUcxPair pair;
  auto sender = pair.sender.open(1, 2, pair.notifiers[0]), receiver = pair.receiver.open(1, 2, pair.notifiers[1]);
  std::string from = "hello", to(10, '.');
  auto* bytes = reinterpret_cast<std::byte*>(from.data());
  for (int i = 0; i < 2; ++i)
    receiver->post_receive(reinterpret_cast<std::byte*>(&to[static_cast<std::size_t>(5 * i)]), 5);
  sender->send(bytes, 5);
  ASSERT_TRUE(await([&] { return receiver->received() == 1; }));
  const std::int64_t bytes_written = 2 * (24 + 5);
  ASSERT_EQ(send(pair.receiver_sockets[1].get(), &bytes_written, sizeof bytes_written, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof bytes_written));
  shutdown(pair.receiver_sockets[1].get(), SHUT_WR);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(receiver->failure(), nullptr);
  sender->send(bytes, 5);
  ASSERT_TRUE(await([&] { return receiver->failure() != nullptr; }));
  EXPECT_EQ(receiver->received(), 2);
  EXPECT_EQ(to, "hellohello");
}

int count_listening_sockets() {
  int count = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    int listens = 0;
    socklen_t size = sizeof listens;
    count += getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
  }
  return count;
}

TEST(UcxWire, AWireWithinAHostOpensNoListeningSocket) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX library";
  unsetenv("UCX_TLS");
  auto local_sockets = socket_pair(), remote_sockets = socket_pair();
  const int initial_count = count_listening_sockets();
  const auto local_wire = make_ucx_wire(std::move(local_sockets[0]), true);
  EXPECT_EQ(count_listening_sockets(), initial_count);
  const auto remote_wire = make_ucx_wire(std::move(remote_sockets[0]), false);
  EXPECT_GT(count_listening_sockets(), initial_count) << "the count must include the sockets of a wire between hosts";
}

TEST(UcxWire, TransportsThatDoNotExistAreAnError) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX library";
  auto sockets = socket_pair();
  try {
    make_ucx_wire(std::move(sockets[0]), true, "carrier_pigeon");
    FAIL() << "transports that do not exist must be an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::device);
    EXPECT_THAT(error.what(), HasSubstr("UCX cannot "));
  }
}

}  // namespace
}  // namespace karez::comm
