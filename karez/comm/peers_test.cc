// Processes that find each other through the store, connect by the appropriate transport, and run collectives; and
// their errors when a rank dies.
#include "karez/comm/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <thread>

#include "karez/base/error.h"
#include "karez/comm/host.h"
#include "karez/comm/test_collectives.h"
#include "karez/comm/test_links.h"
#include "karez/comm/ucx_wire.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

// One process of a world: the store's client, its peers, and a communicator of all ranks.
struct Rank {
  Rank(const Address& address, const Token& token, PeersOptions options)
      : client(address, token, options.rank, cat("test ", options.rank), options.timeout),
        peers(reactor, client, token, options),
        endpoint(options.rank, options.ranks, notifier) {
    for (int r = 0; r < options.ranks; ++r)
      if (r != options.rank) endpoint.connect(r, peers.connect(r).open(1, 8, notifier));
  }
  // "", or the error.
  std::string run(Case& c) {
    auto m = static_cast<std::size_t>(peers.rank());
    CollectiveRun run(c.specs[m], endpoint);
    run.start(c.in[m].data(), c.out[m].data(), c.staging[m].data());
    if (!await([&] { return run.advance(); })) return "it does not end";
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

// A port for the store, known before any process starts.
Address free_address() {
  Address address;
  Descriptor free = listen_at(address, 1);
  return address;
}

struct Server {
  Server(const Address& address, const Token& token) : store(reactor, token, address) {}
  Reactor reactor;
  StoreServer store;
};

// Runs `body` for each rank: rank 0 in this process, every other rank in a process of its own.
int run_world(int ranks, const std::function<int(int rank, const Address&, const Token&)>& body) {
  Address address = free_address();
  Token token = random_token();
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int r = 1; r < ranks; ++r)
    children.push_back(std::make_unique<ChildProcess>([&, r] { return body(r, address, token); }));
  int bad = 0;
  {
    Server server(address, token);
    bad = body(0, address, token);
    for (auto& child : children) bad += child->wait() != 0;
  }
  return bad;
}

TEST(Peers, FourProcessesRunCollectivesOverEachTransportAndOverTwo) {
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
    int bad = run_world(4, [&](int r, const Address& address, const Token& token) {
      PeersOptions options{.rank = r, .ranks = 4, .force = row.force};
      if (row.hosts > 1) options.host = cat("host ", r % row.hosts);
      Rank rank(address, token, options);
      std::set<LinkClass> used;
      for (int other = 0; other < 4; ++other)
        if (other != r) used.insert(rank.peers.link_class(other));
      std::vector<std::string> error_text;
      if (used != row.used) error_text.push_back("unexpected links");
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Case c = random_case(4, seed);
        error_text.push_back(rank.run(c));
      }
      for (Algorithm a : {Algorithm::ring, Algorithm::direct, Algorithm::flat, Algorithm::recursive}) {
        Case c = make_all_reduce(DType::f32, Op::sum, 4, {10007}, a, 4096, 9);
        std::int64_t before = rank.endpoint.bytes_sent();
        error_text.push_back(rank.run(c));
        if (rank.endpoint.bytes_sent() - before != bytes_sent(c.specs[static_cast<std::size_t>(r)]))
          error_text.push_back("an unexpected number of bytes");
      }
      rank.client.barrier("end", 4);
      int bad = 0;
      for (const std::string& s : error_text)
        if (!s.empty()) ++bad, std::fprintf(stderr, "rank %d: %s\n", r, s.c_str());
      return bad;
    });
    EXPECT_EQ(bad, 0);
  }
}

TEST(Peers, TheOthersReportTheNameOfAKilledRank) {
  Address address = free_address();
  Token token = random_token();
  auto looked =
      socket_pair();  // closed after rank 0's check: rank 1 lives until then, otherwise two links would have failed
  auto body = [&](int r, bool dies) {
    looked[1].close();
    Rank rank(address, token, {.rank = r, .ranks = 3});
    rank.client.barrier("all here", 3);
    if (dies) std::this_thread::sleep_for(std::chrono::seconds(60));
    if (!await([&] { return rank.notifier.failed(); })) return 1;
    std::string link = error_of([&] { rank.endpoint.check(); }), store = error_of([&] { rank.client.wait("never"); });
    bool good = link.find("link to rank 2 (") == 0 && store.find("rank 2 (test 2) has exited") != std::string::npos;
    if (!good) std::fprintf(stderr, "rank %d: %s; %s\n", r, link.c_str(), store.c_str());
    rank.client.set(cat("done/", r), "");
    std::byte any{};
    return !await([&] { return ::read(looked[0].get(), &any, 1) == 0; }) ? 3 : good ? 0 : 2;
  };
  ChildProcess one([&] { return body(1, false); });
  ChildProcess two([&] { return body(2, true); });
  Server server(address, token);
  Rank rank(address, token, {.rank = 0, .ranks = 3});
  rank.client.barrier("all here", 3);
  two.kill();
  EXPECT_TRUE(await([&] { return rank.notifier.failed(); }, detection_seconds));
  EXPECT_THAT(error_of([&] { rank.endpoint.check(); }), HasSubstr("link to rank 2 ("));
  looked[1].close();
  EXPECT_EQ(one.wait(), 0);
}

TEST(Peers, APeerThatNeverConnectsIsNamedAndADeadOneAtOnce) {
  Token token = random_token();
  Reactor reactor;
  StoreServer server(reactor, token);
  StoreClient zero(server.address(), token, 0, "zero", Seconds(5)), one(server.address(), token, 1, "one", Seconds(5));
  Peers first(reactor, zero, token, {.rank = 0, .ranks = 3, .timeout = Seconds(0.3)});
  Peers second(reactor, one, token, {.rank = 1, .ranks = 3});
  EXPECT_THAT(error_of([&] { first.connect(1); }),
              ::testing::MatchesRegex("no connection from rank 1 \\(.*, process [0-9]+\\) within 0.3 s"));
  EXPECT_THAT(error_of([&] { first.connect(3); }), HasSubstr("rank 3 is not a peer of rank 0 of 3"));
  EXPECT_THAT(error_of([&] { first.connect(0); }), HasSubstr("rank 0 is not a peer of rank 0"));
  {
    Descriptor stranger = dial(server.address(), Seconds(5));
    authenticate(stranger.get(), token, store_purpose, 2, Seconds(5));
    std::string hello = encode(StoreRequest{StoreRequest::Op::hello, 2, "", "two"});
    send_all(stranger.get(), std::as_bytes(std::span(hello)), Seconds(5));
    std::string answer(8, '.');
    receive_all(stranger.get(), std::as_writable_bytes(std::span(answer)), Seconds(5));
  }
  EXPECT_TRUE(await([&] { return error_of([&] { zero.check(); }) != "no error"; }));
  EXPECT_THAT(error_of([&] { second.connect(2); }), HasSubstr("rank 2 (two) has exited"));
}

TEST(Peers, AConnectionIsMadeOnceAndOnlyTheHigherRankDials) {
  Token token = random_token();
  Reactor reactor;
  StoreServer server(reactor, token);
  StoreClient zero(server.address(), token, 0, "zero", Seconds(5)), one(server.address(), token, 1, "one", Seconds(5));
  Peers first(reactor, zero, token, {.rank = 0, .ranks = 2}), second(reactor, one, token, {.rank = 1, .ranks = 2});
  Connection& up = second.connect(0);
  Connection& down = first.connect(1);
  EXPECT_EQ(&up, &second.connect(0));
  EXPECT_EQ(&down, &first.connect(1));
  EXPECT_THAT(down.peer(), ::testing::MatchesRegex("rank 1 \\(.*, process [0-9]+\\)"));
  // A process that has the token but must not connect: to rank 1, which no rank dials, and to rank 0, which rank 1 has
  // dialled.
  for (auto [rank, who] : {std::pair{1, 0u}, std::pair{1, 1u}, std::pair{1, 2u}, std::pair{1, 77u}, std::pair{0, 1u}}) {
    std::string published = one.wait(cat("peer/", rank));
    std::string tcp = published.substr(published.find("127.0.0.1:"));
    Descriptor socket = dial(parse_address(tcp.substr(0, tcp.find('\n'))), Seconds(5));
    authenticate(socket.get(), token, cat("rank ", rank), who, Seconds(5));
    std::byte any{};
    EXPECT_THAT(error_of([&] { receive_all(socket.get(), {&any, 1}, Seconds(5)); }), HasSubstr("closed")) << who;
  }
  Notifier a, b;
  auto there = up.open(1, 1, a), here = down.open(1, 1, b);
  std::byte from{3}, to{};
  here->post_receive(&to, 1);
  there->send(&from, 1);
  EXPECT_TRUE(await([&] { return here->received() == 1; }));
  EXPECT_EQ(to, from);
}

TEST(Peers, ControlMessagesDoNotWaitForData) {
  for (std::optional<LinkClass> force : {std::optional<LinkClass>(), std::optional(LinkClass::tcp)}) {
    Token token = random_token();
    Reactor reactor;
    StoreServer server(reactor, token);
    StoreClient zero(server.address(), token, 0, "zero", Seconds(5)),
        one(server.address(), token, 1, "one", Seconds(5));
    Peers first(reactor, zero, token, {.rank = 0, .ranks = 2, .force = force}),
        second(reactor, one, token, {.rank = 1, .ranks = 2, .force = force});
    EXPECT_EQ(first.name(1), "rank 1") << "its address has not been requested";
    Connection &up = second.control(0), &down = first.control(1);
    EXPECT_EQ(&down, &first.control(1));
    EXPECT_THAT(first.name(1), ::testing::MatchesRegex("rank 1 \\(.*, process [0-9]+\\)"));
    EXPECT_EQ(first.bytes_received(), 0) << "no data";
    Connection &data_up = second.connect(0), &data_down = first.connect(1);
    EXPECT_NE(&data_down, &down);
    Notifier a, b, c, d;
    auto there = up.open(1, 1, a), here = down.open(1, 1, b), data_there = data_up.open(1, 1, c),
         data_here = data_down.open(1, 1, d);
    std::vector<std::byte> much(64 << 20), room(much.size());
    std::byte from{3}, to{};
    const auto control = [&] { here->post_receive(&to, 1), there->send(&from, 1); };
    std::int64_t round = 0;
    bool beside = false;
    while (!beside && round < 10) {  // this thread may check too late
      EXPECT_TRUE(await([&] { return data_here->received() == round; }));
      ++round;
      data_here->post_receive(room.data(), static_cast<std::int64_t>(room.size()));
      data_there->send(much.data(), static_cast<std::int64_t>(much.size()));
      control();
      EXPECT_TRUE(await([&] { return here->received() == round; }));
      beside = data_here->received() < round;
    }
    EXPECT_TRUE(beside) << "the control message waited for the data";
    EXPECT_TRUE(await([&] { return data_here->received() == round; }));
    EXPECT_GE(first.bytes_received(), static_cast<std::int64_t>(much.size()));
    control();  // the data may have taken long
    EXPECT_TRUE(await([&] { return here->received() == round + 1; }));
    EXPECT_TRUE(down.has_recent_ack(Seconds(30)));
    EXPECT_TRUE(data_down.has_recent_ack(Seconds(30)));
    first.cancel_waits("rank 1 has stopped", 1);
    EXPECT_EQ(first.lost(), 1);
  }
}

TEST(Peers, AResetMakesNewConnectionsAndRejectsLateDialsForOldOnes) {
  Token token = random_token();
  Reactor reactor;
  StoreServer server(reactor, token);
  StoreClient zero(server.address(), token, 0, "zero", Seconds(5)), one(server.address(), token, 1, "one", Seconds(5));
  Peers first(reactor, zero, token, {.rank = 0, .ranks = 2}), second(reactor, one, token, {.rank = 1, .ranks = 2});
  for (std::int64_t round = 0; round < 3; ++round) {
    for (const bool control : {false, true}) {
      Connection& up = control ? second.control(0) : second.connect(0);
      Connection& down = control ? first.control(1) : first.connect(1);
      Notifier a, b;
      auto there = up.open(1, 1, a), here = down.open(1, 1, b);
      std::byte from{3}, to{};
      here->post_receive(&to, 1);
      there->send(&from, 1);
      EXPECT_TRUE(await([&] { return here->received() == 1; })) << round;
      EXPECT_EQ(to, from);
    }
    first.cancel_waits("rank 1 has stopped", 1);
    first.reset_connections();
    second.reset_connections();
    EXPECT_EQ(first.lost(), std::nullopt);
    const std::string published = one.wait("peer/0"), tcp = published.substr(published.find("127.0.0.1:"));
    Descriptor late = dial(parse_address(tcp.substr(0, tcp.find('\n'))), Seconds(5));
    authenticate(late.get(), token, "rank 0", 1u | static_cast<std::uint32_t>(round) << 24, Seconds(5));
    std::byte any{};
    EXPECT_THAT(error_of([&] { receive_all(late.get(), {&any, 1}, Seconds(5)); }), HasSubstr("closed")) << round;
  }
}

TEST(Peers, SharedMemoryRequiresOneHost) {
  Token token = random_token();
  Reactor reactor;
  StoreServer server(reactor, token);
  StoreClient zero(server.address(), token, 0, "zero", Seconds(5)), one(server.address(), token, 1, "one", Seconds(5));
  Peers first(reactor, zero, token, {.rank = 0, .ranks = 2, .force = LinkClass::shm, .host = "alpha"});
  Peers second(reactor, one, token, {.rank = 1, .ranks = 2, .host = "beta"});
  EXPECT_THAT(error_of([&] { first.connect(1); }), HasSubstr("links are forced to shm, but rank 1"));
  EXPECT_EQ(second.link_class(0), LinkClass::tcp);
  EXPECT_EQ(link_class_from("tcp"), LinkClass::tcp);
  EXPECT_EQ(link_class_from(""), std::nullopt);
  EXPECT_THAT(error_of([] { link_class_from("ucc"); }), HasSubstr("no link is called 'ucc'; there are shm, tcp, ucx"));
}

TEST(Peers, AVariableForcesTheLinksUnlessTheOptionsDo) {
  auto classes = [](const char* variable, std::optional<LinkClass> force) {
    setenv("KAREZ_LINK", variable, 1);
    Token token = random_token();
    Reactor reactor;
    StoreServer server(reactor, token);
    StoreClient zero(server.address(), token, 0, "zero", Seconds(5)),
        one(server.address(), token, 1, "one", Seconds(5));
    Peers first(reactor, zero, token, {.rank = 0, .ranks = 2, .force = force}),
        second(reactor, one, token, {.rank = 1, .ranks = 2});
    return first.link_class(1);
  };
  ChildProcess forced(
      [&] { return classes("tcp", {}) == LinkClass::tcp && classes("", {}) == LinkClass::shm ? 0 : 1; });
  EXPECT_EQ(forced.wait(), 0);
  ChildProcess option([&] { return classes("tcp", LinkClass::shm) == LinkClass::shm ? 0 : 1; });
  EXPECT_EQ(option.wait(), 0);
  ChildProcess unknown([&] {
    return error_of([&] { classes("ucc", {}); }) == "no link is called 'ucc'; there are shm, tcp, ucx" ? 0 : 1;
  });
  EXPECT_EQ(unknown.wait(), 0);
}

TEST(Host, TheHostIsTheSameForItsProcessesAndCanBeNamed) {
  std::string here = this_host();
  EXPECT_GT(here.size(), 30u);
  ChildProcess same([&] { return this_host() == here ? 0 : 1; });
  ChildProcess named([&] {
    setenv("KAREZ_HOST", "alpha", 1);
    return this_host() == "named alpha" ? 0 : 1;
  });
  EXPECT_EQ(same.wait(), 0);
  EXPECT_EQ(named.wait(), 0);
  EXPECT_THAT(this_process(), HasSubstr(cat(", process ", getpid())));
}

TEST(Host, AnInterfaceIsLoopbackUnlessNamed) {
  EXPECT_EQ(address_of(""), "127.0.0.1");
  EXPECT_EQ(address_of("lo"), "127.0.0.1");
  EXPECT_EQ(address_of("10.1.2.3"), "10.1.2.3");
  EXPECT_THAT(error_of([] { address_of("eth99"); }), HasSubstr("no network interface is called 'eth99'; there are lo"));
}

TEST(Host, TheOutwardAddressIsThatOfAnInterface) {
  std::string out;
  const std::string wrong = error_of([&] { out = outward_address(); });
  if (wrong != "no error") {  // no route leads out
    EXPECT_THAT(wrong, HasSubstr("set KAREZ_INTERFACE"));
    return;
  }
  EXPECT_FALSE(out.starts_with("0.") || out.starts_with("127.")) << out;
  Address address{out, 0};
  EXPECT_NO_THROW(listen_at(address, 1)) << out;
}

}  // namespace
}  // namespace karez::comm
