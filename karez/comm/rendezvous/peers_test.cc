// Tests of peers: processes find each other through the store, connect by the appropriate transport, and run
// collectives; if a rank ends, the others report it.
#include "karez/comm/rendezvous/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/comm/collective/test_collectives.h"
#include "karez/comm/rendezvous/host.h"
#include "karez/comm/rendezvous/test_authenticate.h"
#include "karez/comm/transport/test_links.h"
#include "karez/comm/transport/test_socket_pairs.h"
#include "karez/comm/transport/ucx_wire.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::HasSubstr;

// One process of a world: the store's client, its peers, and a communicator of all ranks.
struct Rank {
  Rank(const Address& address, const Token& token, PeersOptions options)
      : client(address, token, options.rank, cat("test ", options.rank), options.timeout),
        peers(reactor, client, token, options),
        endpoint(options.rank, options.ranks, notifier) {
    for (int r = 0; r < options.ranks; ++r)
      if (r != options.rank) endpoint.connect(r, peers.connect(r).open(1, 8, notifier));
  }
  // Returns "", or a description of the error.
  std::string run(Case& c) {
    auto m = static_cast<std::size_t>(peers.rank());
    CollectiveRun run(c.specs[m], endpoint);
    run.start(c.in[m].data(), c.out[m].data(), c.staging[m].data());
    if (!await([&] { return run.advance(); })) return "the collective does not end";
    auto size = static_cast<std::size_t>(c.out[m].size());
    return std::memcmp(c.out[m].data(), c.expected[m].data(), size) == 0 ? ""
                                                                         : cat(c.name, ": different bytes at rank ", m);
  }
  Reactor reactor;
  StoreClient client;
  Peers peers;
  Notifier notifier;
  Endpoint endpoint;
};

// Returns an address for the store, which is known before any process starts.
Address find_free_address() {
  Address address;
  Descriptor closed_listener = listen_at(address, 1);
  return address;
}

struct Server {
  Server(const Address& address, const Token& token) : store(reactor, token, address) {}
  Reactor reactor;
  StoreServer store;
};

// Runs `body` for each rank: rank 0 in this process, each other rank in its own process. Returns the number of
// failures.
int run_world(int ranks, const std::function<int(int rank, const Address&, const Token&)>& body) {
  Address address = find_free_address();
  Token token = random_token();
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int r = 1; r < ranks; ++r)
    children.push_back(std::make_unique<ChildProcess>([&, r] { return body(r, address, token); }));
  int failures = 0;
  {
    Server server(address, token);
    failures = body(0, address, token);
    for (auto& child : children) failures += child->wait() != 0;
  }
  return failures;
}

TEST(Peers, FourProcessesRunCollectivesOverEachTransportAndOverTwoTransports) {
  struct Row {
    std::optional<LinkClass> force;
    int hosts;
    std::set<LinkClass> used;
  };
  for (const Row& row :
       {Row{std::nullopt, 1, {LinkClass::shm}}, Row{LinkClass::tcp, 1, {LinkClass::tcp}},
        Row{std::nullopt, 2, {LinkClass::shm, LinkClass::tcp}}, Row{LinkClass::shm, 1, {LinkClass::shm}},
        Row{LinkClass::ucx, 1, {LinkClass::ucx}}, Row{LinkClass::ucx, 2, {LinkClass::ucx}}}) {
    if (row.force == LinkClass::ucx && !has_ucx()) continue;
    const int failures = run_world(4, [&](int r, const Address& address, const Token& token) {
      PeersOptions options{.rank = r, .ranks = 4, .force = row.force};
      if (row.hosts > 1) options.host = cat("host ", r % row.hosts);
      Rank rank(address, token, options);
      std::set<LinkClass> used;
      for (int other = 0; other < 4; ++other)
        if (other != r) used.insert(rank.peers.link_class(other));
      std::vector<std::string> errors;
      if (used != row.used) errors.push_back("the link classes differ from those expected");
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Case c = random_case(4, seed);
        errors.push_back(rank.run(c));
      }
      for (CollectiveAlgorithm a : {CollectiveAlgorithm::ring, CollectiveAlgorithm::direct, CollectiveAlgorithm::flat,
                                    CollectiveAlgorithm::recursive}) {
        Case c = make_all_reduce(DType::f32, Op::sum, 4, {10007}, a, 4096, 9);
        const std::int64_t initial_bytes = rank.endpoint.bytes_sent();
        errors.push_back(rank.run(c));
        if (rank.endpoint.bytes_sent() - initial_bytes != bytes_sent(c.specs[static_cast<std::size_t>(r)]))
          errors.push_back("the number of bytes differs from the plan");
      }
      rank.client.barrier("end", 4);
      int count = 0;
      for (const std::string& error : errors)
        if (!error.empty()) ++count, std::fprintf(stderr, "rank %d: %s\n", r, error.c_str());
      return count;
    });
    EXPECT_EQ(failures, 0);
  }
}

TEST(Peers, AKilledRankIsReportedByTheOtherRanksWithItsName) {
  Address address = find_free_address();
  Token token = random_token();
  auto checked = socket_pair();  // closed after rank 0's check; until then rank 1 runs, so that only one link fails
  auto body = [&](int r, bool is_killed) {
    checked[1].close();
    Rank rank(address, token, {.rank = r, .ranks = 3});
    rank.client.barrier("begin", 3);
    if (is_killed) std::this_thread::sleep_for(std::chrono::seconds(60));
    if (!await([&] { return rank.notifier.failed(); })) return 1;
    std::string link = error_of([&] { rank.endpoint.check(); }), store = error_of([&] { rank.client.wait("never"); });
    const bool expected =
        link.find("link to rank 2 (") == 0 && store.find("rank 2 (test 2) has exited") != std::string::npos;
    if (!expected) std::fprintf(stderr, "rank %d: %s; %s\n", r, link.c_str(), store.c_str());
    rank.client.set(cat("done/", r), "");
    std::byte byte{};
    return !await([&] { return ::read(checked[0].get(), &byte, 1) == 0; }) ? 3 : expected ? 0 : 2;
  };
  ChildProcess process_1([&] { return body(1, false); });
  ChildProcess process_2([&] { return body(2, true); });
  Server server(address, token);
  Rank rank(address, token, {.rank = 0, .ranks = 3});
  rank.client.barrier("begin", 3);
  process_2.kill();
  EXPECT_TRUE(await([&] { return rank.notifier.failed(); }, detection_seconds));
  EXPECT_THAT(error_of([&] { rank.endpoint.check(); }), HasSubstr("link to rank 2 ("));
  checked[1].close();
  EXPECT_EQ(process_1.wait(), 0);
}

TEST(Peers, APeerThatDoesNotConnectOrHasExitedIsReportedWithItsName) {
  Token token = random_token();
  Reactor reactor;
  StoreServer server(reactor, token);
  StoreClient client_0(server.address(), token, 0, "zero", Seconds(5)),
      client_1(server.address(), token, 1, "one", Seconds(5));
  Peers first(reactor, client_0, token, {.rank = 0, .ranks = 3, .timeout = Seconds(0.3)});
  Peers second(reactor, client_1, token, {.rank = 1, .ranks = 3});
  EXPECT_THAT(error_of([&] { first.connect(1); }),
              ::testing::MatchesRegex("no connection from rank 1 \\(.*, process [0-9]+\\) within 0.3 s"));
  EXPECT_THAT(error_of([&] { first.connect(3); }), HasSubstr("rank 3 is not a peer of rank 0 of 3"));
  EXPECT_THAT(error_of([&] { first.connect(0); }), HasSubstr("rank 0 is not a peer of rank 0"));
  {
    Descriptor raw_client = dial(server.address(), Seconds(5));
    authenticate(raw_client.get(), token, store_purpose, 2, Seconds(5));
    std::string hello = encode(StoreRequest{StoreRequest::Op::hello, 2, "", "two"});
    send_all(raw_client.get(), std::as_bytes(std::span(hello)), Seconds(5));
    std::string reply(8, '.');
    receive_all(raw_client.get(), std::as_writable_bytes(std::span(reply)), Seconds(5));
  }
  EXPECT_TRUE(await([&] { return error_of([&] { client_0.check(); }) != "no error"; }));
  EXPECT_THAT(error_of([&] { second.connect(2); }), HasSubstr("rank 2 (two) has exited"));
}

TEST(Peers, AConnectionIsMadeOnceAndOnlyTheHigherRankDials) {
  Token token = random_token();
  Reactor reactor;
  StoreServer server(reactor, token);
  StoreClient client_0(server.address(), token, 0, "zero", Seconds(5)),
      client_1(server.address(), token, 1, "one", Seconds(5));
  Peers first(reactor, client_0, token, {.rank = 0, .ranks = 2}),
      second(reactor, client_1, token, {.rank = 1, .ranks = 2});
  Connection& to_0 = second.connect(0);
  Connection& to_1 = first.connect(1);
  EXPECT_EQ(&to_0, &second.connect(0));
  EXPECT_EQ(&to_1, &first.connect(1));
  EXPECT_THAT(to_1.peer(), ::testing::MatchesRegex("rank 1 \\(.*, process [0-9]+\\)"));
  // A process with the token must not connect to rank 1, which no rank dials, or to rank 0, which rank 1 has dialled.
  for (auto [rank, number] :
       {std::pair{1, 0u}, std::pair{1, 1u}, std::pair{1, 2u}, std::pair{1, 77u}, std::pair{0, 1u}}) {
    std::string published = client_1.wait(cat("peer/", rank));
    std::string tcp = published.substr(published.find("127.0.0.1:"));
    Descriptor socket = dial(parse_address(tcp.substr(0, tcp.find('\n'))), Seconds(5));
    authenticate(socket.get(), token, cat("rank ", rank), number, Seconds(5));
    std::byte any{};
    EXPECT_THAT(error_of([&] { receive_all(socket.get(), {&any, 1}, Seconds(5)); }), HasSubstr("closed")) << number;
  }
  Notifier sender_notifier, receiver_notifier;
  auto sender = to_0.open(1, 1, sender_notifier), receiver = to_1.open(1, 1, receiver_notifier);
  std::byte from{3}, to{};
  receiver->post_receive(&to, 1);
  sender->send(&from, 1);
  EXPECT_TRUE(await([&] { return receiver->received() == 1; }));
  EXPECT_EQ(to, from);
}

TEST(Peers, ControlMessagesDoNotWaitForData) {
  for (std::optional<LinkClass> force : {std::optional<LinkClass>(), std::optional(LinkClass::tcp)}) {
    Token token = random_token();
    Reactor reactor;
    StoreServer server(reactor, token);
    StoreClient client_0(server.address(), token, 0, "zero", Seconds(5)),
        client_1(server.address(), token, 1, "one", Seconds(5));
    Peers first(reactor, client_0, token, {.rank = 0, .ranks = 2, .force = force}),
        second(reactor, client_1, token, {.rank = 1, .ranks = 2, .force = force});
    EXPECT_EQ(first.name(1), "rank 1") << "the name of rank 1 has not been requested";
    Connection &to_0 = second.control(0), &to_1 = first.control(1);
    EXPECT_EQ(&to_1, &first.control(1));
    EXPECT_THAT(first.name(1), ::testing::MatchesRegex("rank 1 \\(.*, process [0-9]+\\)"));
    EXPECT_EQ(first.bytes_received(), 0) << "control messages must not be counted";
    Connection &data_to_0 = second.connect(0), &data_to_1 = first.connect(1);
    EXPECT_NE(&data_to_1, &to_1);
    Notifier notifiers[4];
    auto sender = to_0.open(1, 1, notifiers[0]), receiver = to_1.open(1, 1, notifiers[1]),
         data_sender = data_to_0.open(1, 1, notifiers[2]), data_receiver = data_to_1.open(1, 1, notifiers[3]);
    std::vector<std::byte> sent_data(64 << 20), received_data(sent_data.size());
    std::byte from{3}, to{};
    const auto send_control = [&] { receiver->post_receive(&to, 1), sender->send(&from, 1); };
    std::int64_t round = 0;
    bool arrived_first = false;             // true if the control message arrives before the end of the data
    while (!arrived_first && round < 10) {  // repeated, because this thread may check too late
      EXPECT_TRUE(await([&] { return data_receiver->received() == round; }));
      ++round;
      data_receiver->post_receive(received_data.data(), static_cast<std::int64_t>(received_data.size()));
      data_sender->send(sent_data.data(), static_cast<std::int64_t>(sent_data.size()));
      send_control();
      EXPECT_TRUE(await([&] { return receiver->received() == round; }));
      arrived_first = data_receiver->received() < round;
    }
    EXPECT_TRUE(arrived_first) << "the control message waited for the data";
    EXPECT_TRUE(await([&] { return data_receiver->received() == round; }));
    EXPECT_GE(first.bytes_received(), static_cast<std::int64_t>(sent_data.size()));
    send_control();  // the data may have taken a long time
    EXPECT_TRUE(await([&] { return receiver->received() == round + 1; }));
    EXPECT_TRUE(to_1.has_recent_ack(Seconds(30)));
    EXPECT_TRUE(data_to_1.has_recent_ack(Seconds(30)));
    first.cancel_waits("rank 1 has stopped", 1);
    EXPECT_EQ(first.lost(), 1);
  }
}

TEST(Peers, AResetMakesNewConnectionsAndRejectsLateDialsForOldOnes) {
  Token token = random_token();
  Reactor reactor;
  StoreServer server(reactor, token);
  StoreClient client_0(server.address(), token, 0, "zero", Seconds(5)),
      client_1(server.address(), token, 1, "one", Seconds(5));
  Peers first(reactor, client_0, token, {.rank = 0, .ranks = 2}),
      second(reactor, client_1, token, {.rank = 1, .ranks = 2});
  for (std::int64_t round = 0; round < 3; ++round) {
    for (const bool control : {false, true}) {
      Connection& to_0 = control ? second.control(0) : second.connect(0);
      Connection& to_1 = control ? first.control(1) : first.connect(1);
      Notifier sender_notifier, receiver_notifier;
      auto sender = to_0.open(1, 1, sender_notifier), receiver = to_1.open(1, 1, receiver_notifier);
      std::byte from{3}, to{};
      receiver->post_receive(&to, 1);
      sender->send(&from, 1);
      EXPECT_TRUE(await([&] { return receiver->received() == 1; })) << round;
      EXPECT_EQ(to, from);
    }
    first.cancel_waits("rank 1 has stopped", 1);
    first.reset_connections();
    second.reset_connections();
    EXPECT_EQ(first.lost(), std::nullopt);
    const std::string published = client_1.wait("peer/0"), tcp = published.substr(published.find("127.0.0.1:"));
    Descriptor late_dialler = dial(parse_address(tcp.substr(0, tcp.find('\n'))), Seconds(5));
    authenticate(late_dialler.get(), token, "rank 0", 1u | static_cast<std::uint32_t>(round) << 24, Seconds(5));
    std::byte any{};
    EXPECT_THAT(error_of([&] {
                  receive_all(late_dialler.get(), {&any, 1}, Seconds(5));
                }),
                HasSubstr("closed"))
        << round;
  }
}

TEST(Peers, SharedMemoryRequiresTheSameHost) {
  Token token = random_token();
  Reactor reactor;
  StoreServer server(reactor, token);
  StoreClient client_0(server.address(), token, 0, "zero", Seconds(5)),
      client_1(server.address(), token, 1, "one", Seconds(5));
  Peers first(reactor, client_0, token, {.rank = 0, .ranks = 2, .force = LinkClass::shm, .host = "alpha"});
  Peers second(reactor, client_1, token, {.rank = 1, .ranks = 2, .host = "beta"});
  EXPECT_THAT(error_of([&] { first.connect(1); }), HasSubstr("links are forced to shm, but rank 1"));
  EXPECT_EQ(second.link_class(0), LinkClass::tcp);
  EXPECT_EQ(link_class_from("tcp"), LinkClass::tcp);
  EXPECT_EQ(link_class_from(""), std::nullopt);
  EXPECT_THAT(error_of([] { link_class_from("ucc"); }),
              HasSubstr("unknown link 'ucc'; expected one of: shm, tcp, ucx"));
}

TEST(Peers, TheOptionsOverrideTheVariableThatForcesTheLinks) {
  auto find_link_class = [](const char* variable, std::optional<LinkClass> force) {
    setenv("KAREZ_LINK", variable, 1);
    Token token = random_token();
    Reactor reactor;
    StoreServer server(reactor, token);
    StoreClient client_0(server.address(), token, 0, "zero", Seconds(5)),
        client_1(server.address(), token, 1, "one", Seconds(5));
    Peers first(reactor, client_0, token, {.rank = 0, .ranks = 2, .force = force}),
        second(reactor, client_1, token, {.rank = 1, .ranks = 2});
    return first.link_class(1);
  };
  ChildProcess with_variable([&] {
    return find_link_class("tcp", {}) == LinkClass::tcp && find_link_class("", {}) == LinkClass::shm ? 0 : 1;
  });
  EXPECT_EQ(with_variable.wait(), 0);
  ChildProcess with_option([&] { return find_link_class("tcp", LinkClass::shm) == LinkClass::shm ? 0 : 1; });
  EXPECT_EQ(with_option.wait(), 0);
  ChildProcess with_unknown_value([&] {
    const std::string error = error_of([&] { find_link_class("ucc", {}); });
    return error == "unknown link 'ucc'; expected one of: shm, tcp, ucx" ? 0 : 1;
  });
  EXPECT_EQ(with_unknown_value.wait(), 0);
}

}  // namespace
}  // namespace karez::comm
