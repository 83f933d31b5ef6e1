// Tests of the store over sockets, and of the errors that its clients get when a rank ends.
#include "karez/comm/rendezvous/store_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "karez/base/test_error.h"
#include "karez/comm/rendezvous/test_authenticate.h"
#include "karez/comm/transport/test_links.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::HasSubstr;
using Op = StoreRequest::Op;

class StoreSockets : public ::testing::Test {
 protected:
  std::unique_ptr<StoreClient> client(int rank, double timeout = 5) {
    return std::make_unique<StoreClient>(server.address(), token, rank, cat("host", rank), Seconds(timeout));
  }
  Token token = random_token();
  Reactor reactor;
  StoreServer server{reactor, token};
};

TEST_F(StoreSockets, ClientsExchangeValues) {
  auto client_0 = client(0), client_1 = client(1);
  std::string value;
  std::thread waiting([&] { value = client_1->wait("address"); });
  EXPECT_FALSE(client_0->get("address").has_value());
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::string large(1 << 20, 'x');
  client_0->set("address", large);
  waiting.join();
  EXPECT_EQ(value, large);
  EXPECT_EQ(client_1->get("address"), large);
  std::thread other([&] { client_1->barrier("end", 2); });
  client_0->barrier("end", 2);
  other.join();
  EXPECT_EQ(server.address().host, "127.0.0.1");
}

TEST_F(StoreSockets, ATimeoutErrorContainsTheRequest) {
  auto client_0 = client(0, 2);
  EXPECT_THAT(error_of([&] { client_0->wait("never/set"); }),
              HasSubstr("waiting for 'never/set': the peer does not answer"));
  EXPECT_THAT(error_of([&] { client_0->get("x"); }), HasSubstr("the connection is closed"))
      << "the late reply is not mistaken for the reply to another request";
}

TEST_F(StoreSockets, AClientThatGivesUpIsNotReportedAsExited) {
  auto client_0 = client(0), client_1 = client(1, 0.2);
  EXPECT_THAT(error_of([&] { client_1->wait("never"); }), HasSubstr("waiting for 'never': the peer does not answer"));
  std::string error;
  EXPECT_TRUE(await([&] { return !(error = error_of([&] { client_0->check(); })).empty(); }, detection_seconds));
  EXPECT_EQ(error, "rank 1 (host1) has given up waiting for 'never': the peer does not answer");
}

// Returns TCP_USER_TIMEOUT in milliseconds, after which the kernel drops an unreachable peer, for all sockets of this
// process that are connected from or to this port.
std::vector<unsigned> user_timeouts_of(int port) {
  std::vector<unsigned> out;
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_in local{}, remote{};
    socklen_t local_size = sizeof local, remote_size = sizeof remote, timeout_size = sizeof(unsigned);
    unsigned user_timeout_ms = 0;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size) != 0 ||
        getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &remote_size) != 0)
      continue;
    if (ntohs(local.sin_port) != port && ntohs(remote.sin_port) != port) continue;
    if (getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, &timeout_size) == 0)
      out.push_back(user_timeout_ms);
  }
  return out;
}

TEST_F(StoreSockets, BothEndsSetTheirTimeoutsForUnreachablePeers) {
  StoreServer server_with_timeout(reactor, token, {}, {}, Seconds(70));
  StoreClient client_with_timeout(server_with_timeout.address(), token, 1, "host1", Seconds(50));
  client_with_timeout.set("k", "v");
  EXPECT_THAT(user_timeouts_of(server_with_timeout.address().port), ::testing::UnorderedElementsAre(70000, 50000));
}

TEST_F(StoreSockets, ABrokenConnectionDoesNotProveThatARankHasExited) {
  auto client_0 = client(0);
  Descriptor raw_client = dial(server.address(), Seconds(5));
  authenticate(raw_client.get(), token, store_purpose, 7, Seconds(5));
  std::string hello = encode(StoreRequest{Op::hello, 7, "", "host7"});
  send_all(raw_client.get(), std::as_bytes(std::span(hello)), Seconds(5));
  std::string reply(8, '.');
  receive_all(raw_client.get(), std::as_writable_bytes(std::span(reply)), Seconds(5));
  const linger reset_on_close{1, 0};
  ASSERT_EQ(setsockopt(raw_client.get(), SOL_SOCKET, SO_LINGER, &reset_on_close, sizeof reset_on_close), 0);
  raw_client.close();  // sends a reset, like a host that has dropped the connection
  std::string error;
  EXPECT_TRUE(await([&] { return !(error = error_of([&] { client_0->check(); })).empty(); }, detection_seconds));
  EXPECT_EQ(
      error,
      "rank 7 (host7) has exited or cannot be reached: its connection to the store ended with 'Connection reset by "
      "peer'");
}

TEST_F(StoreSockets, AWrongTokenIsRejected) {
  std::string error = error_of([&] { StoreClient(server.address(), random_token(), 1, "x", Seconds(5)); });
  EXPECT_THAT(error,
              HasSubstr(cat("the store at ", print(server.address()), ": the peer does not have this world's token")));
}

TEST_F(StoreSockets, WaitingClientsGetAnErrorWhenARankDisconnects) {
  auto client_0 = client(0), client_1 = client(1);
  std::string error;
  std::atomic<bool> failed{false};
  std::thread waiting([&] {
    error = error_of([&] { client_0->wait("never"); });
    failed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Descriptor raw_client = dial(server.address(), Seconds(5));  // a client that sends hello and disconnects
  authenticate(raw_client.get(), token, store_purpose, 7, Seconds(5));
  std::string hello = encode(StoreRequest{Op::hello, 7, "", "host7"});
  send_all(raw_client.get(), std::as_bytes(std::span(hello)), Seconds(5));
  std::string reply(8, '.');
  receive_all(raw_client.get(), std::as_writable_bytes(std::span(reply)), Seconds(5));
  raw_client.close();
  EXPECT_TRUE(await([&] { return failed.load(); }, detection_seconds));
  waiting.join();
  EXPECT_EQ(error, "rank 7 (host7) has exited");
  EXPECT_THAT(error_of([&] { client_1->check(); }), HasSubstr("rank 7 (host7) has exited"));
}

TEST_F(StoreSockets, OnlyTheClientThatSendsGarbageIsDropped) {
  auto client_0 = client(0);
  std::mt19937_64 random(3);
  ::testing::internal::CaptureStderr();
  for (int trial = 0; trial < 10; ++trial) {
    Descriptor raw_client = dial(server.address(), Seconds(5));
    authenticate(raw_client.get(), token, store_purpose, 7, Seconds(5));
    std::vector<std::byte> bytes(5000);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random() | 0x10);
    send_all(raw_client.get(), bytes, Seconds(5));
    std::byte any{};
    EXPECT_THAT(error_of([&] {
                  receive_all(raw_client.get(), {&any, 1}, Seconds(5));
                }),
                ::testing::AnyOf(HasSubstr("closed"), HasSubstr("reset")));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the store drops a client: a request of unknown kind "));
  client_0->set("k", "v");
  EXPECT_EQ(client_0->get("k"), "v");
}

TEST_F(StoreSockets, AClientMayStartBeforeTheStore) {
  Address address;
  { Descriptor closed_listener = listen_at(address, 1); }  // finds a free port
  std::unique_ptr<StoreClient> early_client;
  std::thread connecting(
      [&] { early_client = std::make_unique<StoreClient>(address, token, 1, "early", Seconds(10)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  StoreServer late_server(reactor, token, address);
  connecting.join();
  early_client->set("k", "v");
  EXPECT_EQ(early_client->get("k"), "v");
  early_client.reset();
}

}  // namespace
}  // namespace karez::comm
