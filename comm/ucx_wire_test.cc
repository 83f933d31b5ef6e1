// What a wire over UCX must refuse; what it must do stands in conformance_test.cc and processes_test.cc.
#include "comm/ucx_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>

#include "base/error.h"
#include "comm/test_links.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::HasSubstr;

std::string hello(std::uint64_t greeting, std::uint64_t length, const std::string& behind) {
  std::string out(16, '\0');
  std::memcpy(&out[0], &greeting, 8);
  std::memcpy(&out[8], &length, 8);
  return out + behind;
}

TEST(UcxWire, WhatIsNoAddressEndsTheConnection) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX here";
  constexpr std::uint64_t greeting = 0x317863757a72616bull;
  for (const std::string& bytes :
       {hello(1, 8, "12345678"), hello(greeting, 0, ""), hello(greeting, ~0ull, "x"), hello(greeting, (64 << 10) + 1, "x"), std::string(100, 'G')}) {
    auto sockets = socket_pair();
    Reactor reactor;
    Connection connection(reactor, make_ucx_wire(std::move(sockets[0]), true, "shm"), "rank 1");
    ASSERT_EQ(send(sockets[1].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
    ASSERT_TRUE(await([&] { return connection.failure() != nullptr; }));
    EXPECT_STREQ(connection.failure()->what(), "link to rank 1: what came is no address of UCX");
  }
}

TEST(UcxWire, AnAddressMayComeInPieces) {
  if (!has_ucx()) GTEST_SKIP() << "no UCX here";
  auto near = socket_pair(), far = socket_pair();
  Reactor reactor;
  Connection one(reactor, make_ucx_wire(std::move(near[0]), true, "shm"), "rank 1"),
      two(reactor, make_ucx_wire(std::move(far[0]), true, "shm"), "rank 0");
  auto pass = [](int from, int to) {  // byte by byte
    char byte = 0;
    while (recv(from, &byte, 1, MSG_DONTWAIT) == 1) ASSERT_EQ(send(to, &byte, 1, MSG_NOSIGNAL), 1);
  };
  pass(near[1].get(), far[1].get());
  pass(far[1].get(), near[1].get());
  Bell bells[2];
  auto sender = one.open(1, 1, bells[0]), receiver = two.open(1, 1, bells[1]);
  std::string from = "hello", to = ".....";
  receiver->post_receive(reinterpret_cast<std::byte*>(&to[0]), 5);
  sender->send(reinterpret_cast<const std::byte*>(&from[0]), 5);
  ASSERT_TRUE(await([&] { return receiver->received() == 1; }));
  EXPECT_EQ(to, "hello");
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
