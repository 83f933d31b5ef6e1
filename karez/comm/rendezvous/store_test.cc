// Tests of the store without sockets: its requests, its limits, and the errors of its clients when a rank ends.
#include "karez/comm/rendezvous/store.h"

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

#include "karez/base/test_error.h"
#include "karez/comm/rendezvous/store_server.h"
#include "karez/comm/transport/test_links.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Op = StoreRequest::Op;

// A store, and the replies to each client as text: "ok:value", "nothing:", "error:text".
class StoreTest : public ::testing::Test {
 protected:
  Store store{[this](Store::Client client, const StoreReply& reply) {
    const char* names[] = {"ok", "nothing", "error"};
    replies[client].push_back(cat(names[static_cast<int>(reply.status)], ":", reply.value));
  }};
  std::map<Store::Client, std::vector<std::string>> replies;

  void join(Store::Client client, int rank) {
    store.join(client);
    request(client, {Op::hello, static_cast<std::uint32_t>(rank), "", cat("host", rank)});
    replies.clear();
  }
  void request(Store::Client client, const StoreRequest& request) { store.take(client, encode(request)); }
  std::vector<std::string> take_replies(Store::Client client) { return std::exchange(replies[client], {}); }
};

TEST_F(StoreTest, ASecondProcessOfOneRankIsRejectedAndReported) {
  join(1, 0);
  join(2, 1);
  store.join(3);
  request(3, {Op::hello, 1, "", "third"});
  EXPECT_THAT(take_replies(3), ElementsAre("error:rank 1 has joined already: host1"));
  request(1, {Op::get, 0, Store::duplicate_rank_key, ""});
  EXPECT_THAT(take_replies(1), ElementsAre("ok:two processes claim rank 1: host1, and third, which is rejected"));
  store.leave(3);
  request(1, {Op::check, 0, "", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("nothing:"))
      << "the exit of client 3, which had not joined, must not be reported";
  request(2, {Op::goodbye, 0, "", ""});
  store.join(4);
  request(4, {Op::hello, 1, "", "fourth"});
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
  for (const auto& [goodbye, reason, error] : rows) {
    Store new_store([this](Store::Client client, const StoreReply& reply) { replies[client].push_back(reply.value); });
    for (Store::Client client : {1, 2}) {
      new_store.join(client);
      new_store.take(
          client, encode(StoreRequest{Op::hello, static_cast<std::uint32_t>(client - 1), "", cat("host", client - 1)}));
    }
    new_store.take(1, encode(StoreRequest{Op::wait, 0, "never", ""}));
    new_store.take(2, encode(StoreRequest{Op::wait, 0, "never", ""}));
    take_replies(1), take_replies(2);
    if (!goodbye.empty()) new_store.take(2, encode(StoreRequest{Op::goodbye, 0, "", goodbye}));
    EXPECT_TRUE(take_replies(1).empty());
    new_store.leave(2, reason);
    EXPECT_THAT(take_replies(1), ElementsAre(error));
  }
}

TEST_F(StoreTest, AValueCanBeReadOnceItIsSet) {
  join(1, 0);
  join(2, 1);
  request(1, {Op::get, 0, "a", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("nothing:"));
  request(1, {Op::set, 0, "a", "1"});
  request(2, {Op::get, 0, "a", ""});
  request(2, {Op::set, 0, "a", ""});
  request(2, {Op::wait, 0, "a", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("ok:"));
  EXPECT_THAT(take_replies(2), ElementsAre("ok:1", "ok:", "ok:"));
}

TEST_F(StoreTest, AWaitEndsWhenTheKeyIsSet) {
  for (int c : {1, 2, 3}) join(static_cast<unsigned>(c), c);
  request(1, {Op::wait, 0, "k", ""});
  request(2, {Op::wait, 0, "k", ""});
  request(3, {Op::set, 0, "other", "x"});
  EXPECT_TRUE(replies[1].empty() && replies[2].empty());
  request(3, {Op::set, 0, "k", "v"});
  EXPECT_THAT(take_replies(1), ElementsAre("ok:v"));
  EXPECT_THAT(take_replies(2), ElementsAre("ok:v"));
  request(3, {Op::set, 0, "k", "w"});
  EXPECT_TRUE(replies[1].empty()) << "each wait must get exactly one reply";
}

TEST_F(StoreTest, ABarrierRepliesWhenAllClientsHaveArrivedAndCanBeReused) {
  for (int c : {1, 2, 3}) join(static_cast<unsigned>(c), c);
  for (int round = 0; round < 3; ++round) {
    request(1, {Op::barrier, 3, "b", ""});
    request(3, {Op::barrier, 3, "b", ""});
    EXPECT_TRUE(replies[1].empty() && replies[3].empty());
    request(2, {Op::barrier, 3, "b", ""});
    for (unsigned c : {1u, 2u, 3u}) EXPECT_THAT(take_replies(c), ElementsAre("ok:"));
  }
}

TEST_F(StoreTest, ABarrierWithTwoSizesIsAnError) {
  join(1, 0);
  join(2, 1);
  request(1, {Op::barrier, 2, "b", ""});
  request(2, {Op::barrier, 3, "b", ""});
  EXPECT_THAT(take_replies(2), ElementsAre("error:barrier 'b' expects 2 processes, but this client expects 3"));
  request(2, {Op::barrier, 2, "b", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("ok:"));
}

TEST_F(StoreTest, WaitingClientsGetTheNameOfARankThatHasExited) {
  for (int c : {1, 2, 3, 4}) join(static_cast<unsigned>(c), c * 10);
  request(1, {Op::wait, 0, "k", ""});
  request(2, {Op::barrier, 4, "b", ""});
  request(3, {Op::check, 0, "", ""});
  EXPECT_THAT(take_replies(3), ElementsAre("nothing:"));
  store.leave(4);
  EXPECT_THAT(take_replies(1), ElementsAre("error:rank 40 (host40) has exited"));
  EXPECT_THAT(take_replies(2), ElementsAre("error:rank 40 (host40) has exited"));
  request(3, {Op::check, 0, "", ""});
  request(3, {Op::wait, 0, "never", ""});
  request(3, {Op::barrier, 3, "b", ""});
  EXPECT_THAT(take_replies(3), ElementsAre("error:rank 40 (host40) has exited", "error:rank 40 (host40) has exited",
                                           "error:rank 40 (host40) has exited"));
  store.leave(3);
  request(1, {Op::check, 0, "", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("error:rank 40 (host40) has exited"))
      << "the first departure must be reported";
}

TEST_F(StoreTest, AClientThatSendsGoodbyeIsNotReported) {
  join(1, 0);
  join(2, 1);
  request(1, {Op::wait, 0, "k", ""});
  request(2, {Op::goodbye, 0, "", ""});
  store.leave(2);
  EXPECT_TRUE(replies[1].empty());
  join(3, 2);
  request(3, {Op::check, 0, "", ""});
  EXPECT_THAT(take_replies(3), ElementsAre("nothing:"));
}

TEST_F(StoreTest, AClientThatHasNotSentHelloIsNotReported) {
  join(1, 0);
  store.join(9);
  request(9, {Op::wait, 0, "x", ""});
  store.leave(9);
  request(1, {Op::check, 0, "", ""});
  EXPECT_THAT(take_replies(1), ElementsAre("nothing:"));
  request(1, {Op::set, 0, "x", "1"});
  EXPECT_TRUE(replies[9].empty());
}

TEST_F(StoreTest, RequestsMayArriveInPieces) {
  std::string bytes = encode(StoreRequest{Op::set, 0, "key", "value"}) + encode(StoreRequest{Op::get, 0, "key", ""});
  for (std::size_t step : {1u, 2u, 15u, 16u, 17u, 100u}) {
    Store::Client client = step;
    store.join(client);
    for (std::size_t offset = 0; offset < bytes.size(); offset += step)
      store.take(client, std::string_view(bytes).substr(offset, step));
    EXPECT_THAT(take_replies(client), ElementsAre("ok:", "ok:value")) << step;
  }
}

TEST_F(StoreTest, RequestsWithAnInvalidHeaderAreRejected) {
  auto header = [](std::uint32_t op, std::uint32_t key, std::uint32_t value, std::uint32_t number) {
    std::uint32_t words[] = {op, key, value, number};
    return std::string(reinterpret_cast<const char*>(words), sizeof words);
  };
  const std::pair<std::string, std::string> rows[] = {
      {header(0, 0, 0, 0), "a request of unknown kind 0"},
      {header(8, 0, 0, 0), "a request of unknown kind 8"},
      {header(2, 257, 0, 0), "key of 257 bytes"},
      {header(2, 1, (1 << 20) + 1, 0), "value of 1048577 bytes"},
      {header(2, 0xffffffff, 0xffffffff, 0), "key of 4294967295 bytes, value of 4294967295 bytes"},
      {header(5, 1, 0, 0xffffffff), "number 4294967295"},
  };
  for (const auto& [bytes, error] : rows) {
    store.join(1);
    EXPECT_THAT(error_of([&] { store.take(1, bytes); }), HasSubstr(error));
    store.leave(1);
  }
  join(1, 0);
  request(1, {Op::wait, 0, "k", ""});
  EXPECT_THAT(error_of([&] { request(1, {Op::get, 0, "k", ""}); }), HasSubstr("before the reply to the previous one"));
}

TEST_F(StoreTest, TheStoreAcceptsALimitedNumberOfBytes) {
  join(1, 0);
  std::string value(StoreRequest::max_value, 'x');
  int accepted = 0;
  for (int i = 0; i < 300; ++i) {
    request(1, {Op::set, 0, cat("k", i), value});
    std::string error = take_replies(1).at(0);
    accepted += error == "ok:";
    if (error != "ok:") { EXPECT_THAT(error, HasSubstr("accepts at most 268435456")); }
  }
  EXPECT_EQ(accepted, 255);
  request(1, {Op::set, 0, "k1", value});    // replaces a value of the same size
  request(1, {Op::set, 0, "k0", "small"});  // frees memory
  request(1, {Op::set, 0, "k255", value});
  EXPECT_THAT(take_replies(1), ElementsAre("ok:", "ok:", "ok:"));
}

}  // namespace
}  // namespace karez::comm
