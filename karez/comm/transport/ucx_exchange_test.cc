// Tests of the messages on the socket of a UCX wire.
#include "karez/comm/transport/ucx_exchange.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "karez/comm/transport/socket.h"
#include "karez/comm/transport/test_socket_pairs.h"

namespace karez::comm {
namespace {

std::vector<std::byte> sent_address(std::size_t size) {
  auto sockets = socket_pair();
  send_ucx_address(sockets[0].get(), std::vector<std::byte>(size, std::byte{7}));
  std::vector<std::byte> out(1024);
  out.resize(static_cast<std::size_t>(recv(sockets[1].get(), out.data(), out.size(), 0)));
  return out;
}

TEST(UcxExchange, AnAddressIsReturnedOnceItHasArrivedCompletely) {
  UcxExchange exchange;
  for (std::byte byte : sent_address(100)) {
    EXPECT_FALSE(exchange.take_address());
    exchange.append({&byte, 1});
    EXPECT_FALSE(exchange.is_invalid());
  }
  EXPECT_EQ(exchange.take_address(), std::vector<std::byte>(100, std::byte{7}));
}

TEST(UcxExchange, TheNumberOfWrittenBytesFollowsTheAddress) {
  UcxExchange exchange;
  exchange.append(sent_address(3));
  ASSERT_TRUE(exchange.take_address());
  EXPECT_FALSE(exchange.bytes_written());
  const std::int64_t written = 12345;
  exchange.append(std::as_bytes(std::span(&written, 1)));
  EXPECT_EQ(exchange.bytes_written(), written);
}

TEST(UcxExchange, DataThatDoesNotBeginWithAnAddressIsInvalid) {
  UcxExchange exchange;
  std::array<std::byte, 16> zeros{};
  exchange.append(std::span(zeros).first(15));
  EXPECT_FALSE(exchange.is_invalid()) << "an incomplete header is not invalid";
  exchange.append(std::span(zeros).last(1));
  EXPECT_TRUE(exchange.is_invalid());

  UcxExchange empty_address;
  std::vector<std::byte> bytes = sent_address(1);
  std::memset(bytes.data() + 8, 0, 8);
  empty_address.append(bytes);
  EXPECT_TRUE(empty_address.is_invalid());
}

}  // namespace
}  // namespace karez::comm
