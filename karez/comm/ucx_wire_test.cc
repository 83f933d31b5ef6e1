// Inputs that a wire over UCX must reject; conformance_test.cc and processes_test.cc test the rest.
#include "karez/comm/ucx_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "karez/base/error.h"
#include "karez/comm/test_links.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::HasSubstr;

std::string hello(std::uint64_t magic, std::uint64_t length, const std::string& behind) {
  std::string out(16, '\0');
  std::memcpy(&out[0], &magic, 8);
  std::memcpy(&out[8], &length, 8);
  return out + behind;
}

TEST(UcxWire, AnInvalidAddressEndsTheConnection) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX here";
  constexpr std::uint64_t magic = 0x317863757a72616bull;
  for (const std::string& bytes : {hello(1, 8, "12345678"), hello(magic, 0, ""), hello(magic, ~0ull, "x"),
                                   hello(magic, (64 << 10) + 1, "x"), std::string(100, 'G')}) {
    auto sockets = socket_pair();
    Reactor reactor;
    Connection connection(reactor, make_ucx_wire(std::move(sockets[0]), true, "shm"), "rank 1");
    ASSERT_EQ(send(sockets[1].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
    ASSERT_TRUE(await([&] { return connection.failure() != nullptr; }));
    EXPECT_STREQ(connection.failure()->what(), "link to rank 1: the message contains no UCX address");
  }
}

// Two wires whose sockets end in the test, which forwards their addresses byte by byte.
struct RelayedUcxPair {
  std::array<Descriptor, 2> near = socket_pair(), far = socket_pair();
  Reactor reactor;
  Connection one{reactor, make_ucx_wire(std::move(near[0]), true, "shm"), "rank 1"},
      two{reactor, make_ucx_wire(std::move(far[0]), true, "shm"), "rank 0"};
  Notifier notifiers[2];
  RelayedUcxPair() {
    pass(near[1].get(), far[1].get());
    pass(far[1].get(), near[1].get());
  }
  static void pass(int from, int to) {
    char byte = 0;
    while (recv(from, &byte, 1, MSG_DONTWAIT) == 1) ASSERT_EQ(send(to, &byte, 1, MSG_NOSIGNAL), 1);
  }
};

TEST(UcxWire, AnAddressMayArriveInPieces) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX here";
  RelayedUcxPair ends;
  auto sender = ends.one.open(1, 1, ends.notifiers[0]), receiver = ends.two.open(1, 1, ends.notifiers[1]);
  std::string from = "hello", to = ".....";
  receiver->post_receive(reinterpret_cast<std::byte*>(&to[0]), 5);
  sender->send(reinterpret_cast<const std::byte*>(&from[0]), 5);
  ASSERT_TRUE(await([&] { return receiver->received() == 1; }));
  EXPECT_EQ(to, "hello");
}

TEST(UcxWire, WrittenDataIsReadEvenIfTheSocketEndsFirst) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX here";
  RelayedUcxPair ends;
  auto sender = ends.one.open(1, 2, ends.notifiers[0]), receiver = ends.two.open(1, 2, ends.notifiers[1]);
  std::string from = "hello", to(10, '.');
  auto* bytes = reinterpret_cast<std::byte*>(from.data());
  for (int i = 0; i < 2; ++i)
    receiver->post_receive(reinterpret_cast<std::byte*>(&to[static_cast<std::size_t>(5 * i)]), 5);
  sender->send(bytes, 5);
  ASSERT_TRUE(await([&] { return receiver->received() == 1; }));
  const std::int64_t will_write = 2 * (24 + 5);
  ASSERT_EQ(send(ends.far[1].get(), &will_write, sizeof will_write, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof will_write));
  shutdown(ends.far[1].get(), SHUT_WR);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(receiver->failure(), nullptr);
  sender->send(bytes, 5);
  ASSERT_TRUE(await([&] { return receiver->failure() != nullptr; }));
  EXPECT_EQ(receiver->received(), 2);
  EXPECT_EQ(to, "hellohello");
}

int listening_sockets() {
  int count = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    int listens = 0;
    socklen_t size = sizeof listens;
    count += getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
  }
  return count;
}

TEST(UcxWire, WithinAHostItOpensNoListeningSocket) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX here";
  unsetenv("UCX_TLS");
  auto near = socket_pair(), far = socket_pair();
  const int before = listening_sockets();
  const auto here = make_ucx_wire(std::move(near[0]), true);
  EXPECT_EQ(listening_sockets(), before);
  const auto elsewhere = make_ucx_wire(std::move(far[0]), false);
  EXPECT_GT(listening_sockets(), before) << "between hosts it does, so the count works";
}

TEST(UcxWire, TransportsThatDoNotExistAreAnError) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX here";
  auto sockets = socket_pair();
  try {
    make_ucx_wire(std::move(sockets[0]), true, "carrier_pigeon");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::device);
    EXPECT_THAT(error.what(), HasSubstr("UCX cannot "));
  }
}

}  // namespace
}  // namespace karez::comm
