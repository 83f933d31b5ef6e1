// The store: its requests without a socket, then over sockets, and the errors of its clients when a process dies.
#include "karez/comm/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "karez/base/error.h"
#include "karez/comm/store_server.h"
#include "karez/comm/test_links.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Op = StoreRequest::Op;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

// Clients by number; the replies to each, as text: "ok:value", "nothing:", "error:text".
class StoreTest : public ::testing::Test {
 protected:
  Store store{[this](Store::Client client, const StoreReply& reply) {
    const char* names[] = {"ok", "nothing", "error"};
    replies[client].push_back(cat(names[static_cast<int>(reply.status)], ":", reply.value));
  }};
  std::map<Store::Client, std::vector<std::string>> replies;

  void join(Store::Client client, int rank) {
    store.join(client);
    ask(client, {Op::hello, static_cast<std::uint32_t>(rank), "", cat("host", rank)});
    replies.clear();
  }
  void ask(Store::Client client, const StoreRequest& request) { store.take(client, encode(request)); }
  std::vector<std::string> take_replies(Store::Client client) { return std::exchange(replies[client], {}); }
};

TEST_F(StoreTest, ASecondProcessOfOneRankIsRejectedAndReported) {
  join(1, 0);
  join(2, 1);
  store.join(3);
  ask(3, {Op::hello, 1, "", "another"});
  EXPECT_THAT(take_replies(3), ElementsAre("error:rank 1 has joined already: host1"));
  ask(1, {Op::get, 0, Store::duplicate_rank_key, ""});
  EXPECT_THAT(take_replies(1), ElementsAre("ok:two processes claim rank 1: host1, and another, which is rejected"));
  store.leave(3);
  ask(1, {Op::check, 0, "", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("nothing:")) << "it had not joined";
  ask(2, {Op::goodbye, 0, "", ""});
  store.join(4);
  ask(4, {Op::hello, 1, "", "the next"});
  EXPECT_THAT(take_replies(4), ElementsAre("ok:"));
}

TEST_F(StoreTest, WaitingClientsGetTheReasonOfADeparture) {
  const std::tuple<std::string, std::string, std::string> rows[] = {
      {"", "", "rank 1 (host1) has exited"},
      {"", "Connection timed out",
       "rank 1 (host1) has exited or cannot be reached: its connection to the store ended with 'Connection timed out'"},
      {"has given up getting 'k'", "", "rank 1 (host1) has given up getting 'k'"},
      {"has given up getting 'k'", "Connection reset by peer", "rank 1 (host1) has given up getting 'k'"},
  };
  for (const auto& [reason, why, error] : rows) {
    Store fresh([this](Store::Client client, const StoreReply& reply) { replies[client].push_back(reply.value); });
    for (Store::Client client : {1, 2}) {
      fresh.join(client);
      fresh.take(client,
                 encode(StoreRequest{Op::hello, static_cast<std::uint32_t>(client - 1), "", cat("host", client - 1)}));
    }
    fresh.take(1, encode(StoreRequest{Op::wait, 0, "never", ""}));
    fresh.take(2, encode(StoreRequest{Op::wait, 0, "never", ""}));
    take_replies(1), take_replies(2);
    if (!reason.empty()) fresh.take(2, encode(StoreRequest{Op::goodbye, 0, "", reason}));
    EXPECT_TRUE(take_replies(1).empty());
    fresh.leave(2, why);
    EXPECT_THAT(take_replies(1), ElementsAre(error));
  }
}

TEST_F(StoreTest, AValueThatIsSetCanBeRead) {
  join(1, 0);
  join(2, 1);
  ask(1, {Op::get, 0, "a", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("nothing:"));
  ask(1, {Op::set, 0, "a", "1"});
  ask(2, {Op::get, 0, "a", ""});
  ask(2, {Op::set, 0, "a", ""});
  ask(2, {Op::wait, 0, "a", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("ok:"));
  EXPECT_THAT(take_replies(2), ElementsAre("ok:1", "ok:", "ok:"));
}

TEST_F(StoreTest, AWaitEndsWhenTheKeyIsSet) {
  for (int c : {1, 2, 3}) join(static_cast<unsigned>(c), c);
  ask(1, {Op::wait, 0, "k", ""});
  ask(2, {Op::wait, 0, "k", ""});
  ask(3, {Op::set, 0, "other", "x"});
  EXPECT_TRUE(replies[1].empty() && replies[2].empty());
  ask(3, {Op::set, 0, "k", "v"});
  EXPECT_THAT(take_replies(1), ElementsAre("ok:v"));
  EXPECT_THAT(take_replies(2), ElementsAre("ok:v"));
  ask(3, {Op::set, 0, "k", "w"});
  EXPECT_TRUE(replies[1].empty()) << "once";
}

TEST_F(StoreTest, ABarrierRepliesWhenAllHaveArrivedAndCanBeUsedAgain) {
  for (int c : {1, 2, 3}) join(static_cast<unsigned>(c), c);
  for (int round = 0; round < 3; ++round) {
    ask(1, {Op::barrier, 3, "b", ""});
    ask(3, {Op::barrier, 3, "b", ""});
    EXPECT_TRUE(replies[1].empty() && replies[3].empty());
    ask(2, {Op::barrier, 3, "b", ""});
    for (unsigned c : {1u, 2u, 3u}) EXPECT_THAT(take_replies(c), ElementsAre("ok:"));
  }
}

TEST_F(StoreTest, ABarrierOfTwoSizesIsAnError) {
  join(1, 0);
  join(2, 1);
  ask(1, {Op::barrier, 2, "b", ""});
  ask(2, {Op::barrier, 3, "b", ""});
  EXPECT_THAT(take_replies(2), ElementsAre("error:barrier 'b' expects 2 processes, but a client gives 3"));
  ask(2, {Op::barrier, 2, "b", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("ok:"));
}

TEST_F(StoreTest, WaitingClientsGetTheNameOfADeadRank) {
  for (int c : {1, 2, 3, 4}) join(static_cast<unsigned>(c), c * 10);
  ask(1, {Op::wait, 0, "k", ""});
  ask(2, {Op::barrier, 4, "b", ""});
  ask(3, {Op::check, 0, "", ""});
  EXPECT_THAT(take_replies(3), ElementsAre("nothing:"));
  store.leave(4);
  EXPECT_THAT(take_replies(1), ElementsAre("error:rank 40 (host40) has exited"));
  EXPECT_THAT(take_replies(2), ElementsAre("error:rank 40 (host40) has exited"));
  ask(3, {Op::check, 0, "", ""});
  ask(3, {Op::wait, 0, "never", ""});
  ask(3, {Op::barrier, 3, "b", ""});
  EXPECT_THAT(take_replies(3), ElementsAre("error:rank 40 (host40) has exited", "error:rank 40 (host40) has exited",
                                           "error:rank 40 (host40) has exited"));
  store.leave(3);
  ask(1, {Op::check, 0, "", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("error:rank 40 (host40) has exited")) << "the first departure is reported";
}

TEST_F(StoreTest, AClientThatSaysGoodbyeIsNotReported) {
  join(1, 0);
  join(2, 1);
  ask(1, {Op::wait, 0, "k", ""});
  ask(2, {Op::goodbye, 0, "", ""});
  store.leave(2);
  EXPECT_TRUE(replies[1].empty());
  join(3, 2);
  ask(3, {Op::check, 0, "", ""});
  EXPECT_THAT(take_replies(3), ElementsAre("nothing:"));
}

TEST_F(StoreTest, AClientThatNeverSaidHelloIsNotReported) {
  join(1, 0);
  store.join(9);
  ask(9, {Op::wait, 0, "x", ""});
  store.leave(9);
  ask(1, {Op::check, 0, "", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("nothing:"));
  ask(1, {Op::set, 0, "x", "1"});
  EXPECT_TRUE(replies[9].empty());
}

TEST_F(StoreTest, RequestsMayArriveInAnyPieces) {
  std::string bytes = encode(StoreRequest{Op::set, 0, "key", "value"}) + encode(StoreRequest{Op::get, 0, "key", ""});
  for (std::size_t step : {1u, 2u, 15u, 16u, 17u, 100u}) {
    Store::Client client = step;
    store.join(client);
    for (std::size_t at = 0; at < bytes.size(); at += step)
      store.take(client, std::string_view(bytes).substr(at, step));
    EXPECT_THAT(take_replies(client), ElementsAre("ok:", "ok:value")) << step;
  }
}

TEST_F(StoreTest, InvalidRequestsAreRejectedByTheirHeader) {
  auto header = [](std::uint32_t op, std::uint32_t key, std::uint32_t value, std::uint32_t number) {
    std::uint32_t words[] = {op, key, value, number};
    return std::string(reinterpret_cast<const char*>(words), sizeof words);
  };
  const std::pair<std::string, std::string> rows[] = {
      {header(0, 0, 0, 0), "a request of kind 0 to the store"},
      {header(8, 0, 0, 0), "a request of kind 8 to the store"},
      {header(2, 257, 0, 0), "a key of 257 bytes"},
      {header(2, 1, (1 << 20) + 1, 0), "a value of 1048577"},
      {header(2, 0xffffffff, 0xffffffff, 0), "a key of 4294967295 bytes, a value of 4294967295"},
      {header(5, 1, 0, 0xffffffff), "the number 4294967295"},
  };
  for (const auto& [bytes, error] : rows) {
    store.join(1);
    EXPECT_THAT(error_of([&] { store.take(1, bytes); }), HasSubstr(error));
    store.leave(1);
  }
  join(1, 0);
  ask(1, {Op::wait, 0, "k", ""});
  EXPECT_THAT(error_of([&] { ask(1, {Op::get, 0, "k", ""}); }), HasSubstr("before the answer to the last one"));
}

TEST_F(StoreTest, TheStoreAcceptsALimitedNumberOfBytes) {
  join(1, 0);
  std::string value(StoreRequest::max_value, 'x');
  int taken = 0;
  for (int i = 0; i < 300; ++i) {
    ask(1, {Op::set, 0, cat("k", i), value});
    std::string error = take_replies(1).at(0);
    taken += error == "ok:";
    if (error != "ok:") { EXPECT_THAT(error, HasSubstr("accepts at most 268435456")); }
  }
  EXPECT_EQ(taken, 255);
  ask(1, {Op::set, 0, "k1", value});    // replaces a value of the same size
  ask(1, {Op::set, 0, "k0", "small"});  // frees memory
  ask(1, {Op::set, 0, "k255", value});
  EXPECT_THAT(take_replies(1), ElementsAre("ok:", "ok:", "ok:"));
}

// --- on sockets

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
  auto a = client(0), b = client(1);
  std::string got;
  std::thread waits([&] { got = b->wait("address"); });
  EXPECT_FALSE(a->get("address").has_value());
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::string large(1 << 20, 'x');
  a->set("address", large);
  waits.join();
  EXPECT_EQ(got, large);
  EXPECT_EQ(b->get("address"), large);
  std::thread other([&] { b->barrier("end", 2); });
  a->barrier("end", 2);
  other.join();
  EXPECT_EQ(server.address().host, "127.0.0.1");
}

TEST_F(StoreSockets, ATimeoutNamesTheRequest) {
  auto a = client(0, 2);
  EXPECT_THAT(error_of([&] { a->wait("never/set"); }), HasSubstr("waiting for 'never/set': the peer does not answer"));
  EXPECT_THAT(error_of([&] { a->get("x"); }), HasSubstr("the connection is closed"))
      << "its late reply is not mistaken for another's";
}

TEST_F(StoreSockets, AClientThatGivesUpIsNotReportedAsDead) {
  auto a = client(0), b = client(1, 0.2);
  EXPECT_THAT(error_of([&] { b->wait("never"); }), HasSubstr("waiting for 'never': the peer does not answer"));
  std::string error;
  EXPECT_TRUE(await([&] { return !(error = error_of([&] { a->check(); })).empty(); }, detection_seconds));
  EXPECT_EQ(error, "rank 1 (host1) has given up waiting for 'never': the peer does not answer");
}

// For the sockets of this process that are connected from or to this port: the milliseconds after which the kernel
// drops an unreachable peer.
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

TEST_F(StoreSockets, BothEndsUseTheirOutageTimeouts) {
  StoreServer server_with_timeout(reactor, token, {}, {}, Seconds(70));
  StoreClient client_with_timeout(server_with_timeout.address(), token, 1, "host1", Seconds(50));
  client_with_timeout.set("k", "v");
  EXPECT_THAT(user_timeouts_of(server_with_timeout.address().port), ::testing::UnorderedElementsAre(70000, 50000));
}

TEST_F(StoreSockets, ACutConnectionDoesNotProveThatARankHasExited) {
  auto a = client(0);
  Descriptor raw_client = dial(server.address(), Seconds(5));
  authenticate(raw_client.get(), token, store_purpose, 7, Seconds(5));
  std::string hello = encode(StoreRequest{Op::hello, 7, "", "host7"});
  send_all(raw_client.get(), std::as_bytes(std::span(hello)), Seconds(5));
  std::string answer(8, '.');
  receive_all(raw_client.get(), std::as_writable_bytes(std::span(answer)), Seconds(5));
  const linger reset_on_close{1, 0};
  ASSERT_EQ(setsockopt(raw_client.get(), SOL_SOCKET, SO_LINGER, &reset_on_close, sizeof reset_on_close), 0);
  raw_client.close();  // with a reset, like a host that has dropped the connection
  std::string error;
  EXPECT_TRUE(await([&] { return !(error = error_of([&] { a->check(); })).empty(); }, detection_seconds));
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
  auto a = client(0), b = client(1);
  std::string error;
  std::atomic<bool> failed{false};
  std::thread waits([&] {
    error = error_of([&] { a->wait("never"); });
    failed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Descriptor raw_client = dial(server.address(), Seconds(5));  // a client that sends hello and disconnects
  authenticate(raw_client.get(), token, store_purpose, 7, Seconds(5));
  std::string hello = encode(StoreRequest{Op::hello, 7, "", "host7"});
  send_all(raw_client.get(), std::as_bytes(std::span(hello)), Seconds(5));
  std::string answer(8, '.');
  receive_all(raw_client.get(), std::as_writable_bytes(std::span(answer)), Seconds(5));
  raw_client.close();
  EXPECT_TRUE(await([&] { return failed.load(); }, detection_seconds));
  waits.join();
  EXPECT_EQ(error, "rank 7 (host7) has exited");
  EXPECT_THAT(error_of([&] { b->check(); }), HasSubstr("rank 7 (host7) has exited"));
}

TEST_F(StoreSockets, OnlyTheClientThatSendsGarbageIsDropped) {
  auto a = client(0);
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
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the store drops a client: a request of kind "));
  a->set("still", "here");
  EXPECT_EQ(a->get("still"), "here");
}

TEST_F(StoreSockets, AClientMayStartBeforeTheStore) {
  Address address;
  { Descriptor free = listen_at(address, 1); }
  std::unique_ptr<StoreClient> early;
  std::thread comes([&] { early = std::make_unique<StoreClient>(address, token, 1, "early", Seconds(10)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  StoreServer late(reactor, token, address);
  comes.join();
  early->set("k", "v");
  EXPECT_EQ(early->get("k"), "v");
  early.reset();
}

}  // namespace
}  // namespace karez::comm
