// Tests of addresses and of dialling.
#include "karez/comm/transport/socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "karez/base/test_error.h"

namespace karez::comm {
namespace {
using ::testing::HasSubstr;

TEST(Sockets, PrintedAddressesCanBeParsed) {
  for (std::string text : {"127.0.0.1:4711", "[::1]:80", "10.0.0.1:0", "@karez-x"})
    EXPECT_EQ(print(parse_address(text)), text);
  for (std::string text : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "localhost:1", "1.2.3:4",
                           "127.0.0.1:99999999999"})
    EXPECT_THROW(parse_address(text), Error) << text;
}

TEST(Sockets, DiallingAnAddressWithoutAListenerIsAnErrorWithTheAddress) {
  Address address;
  { Descriptor closed_listener = listen_at(address, 1); }
  EXPECT_THAT(error_of([&] { dial(address, Seconds(1)); }), HasSubstr(cat("cannot reach ", print(address))));
  EXPECT_THAT(error_of([&] {
                dial({"@karez-no-listener", 0}, Seconds(1));
              }),
              HasSubstr("cannot reach @karez-no-listener"));
}

}  // namespace
}  // namespace karez::comm
