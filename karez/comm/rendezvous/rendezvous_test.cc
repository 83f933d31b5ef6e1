// Tests of the rendezvous: ranks find rank 0 from their job launch, for each world, and other users are rejected.
#include "karez/comm/rendezvous/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/comm/rendezvous/host.h"
#include "karez/comm/rendezvous/peers.h"
#include "karez/comm/rendezvous/test_authenticate.h"
#include "karez/comm/transport/test_links.h"

namespace karez::comm {
namespace {
using namespace test;
using ::testing::HasSubstr;

// Returns a launch on one host; its store has a different name in each test process.
JobLaunch launch(int rank, int ranks, bool with_token = true) {
  JobLaunch out;
  out.launcher = Launcher::karez_run;
  out.rank = out.local_rank = rank;
  out.ranks = out.local_ranks = ranks;
  out.store = {cat("@karez-store-test-", getpid()), 0};
  if (with_token) out.token = derive_token("a secret of sixteen");
  out.rank_variables = cat("KAREZ_RANK=", rank);
  return out;
}
JobLaunch launch_on_hosts(int rank, int ranks, const std::string& host, int port) {
  JobLaunch out = launch(rank, ranks);
  out.one_host = false;
  out.store = {host, port};
  return out;
}

// Returns what two ranks, each a thread with its own reactor, read from each other through the store.
std::string exchange(const JobLaunch& launch_0, const JobLaunch& launch_1, int world) {
  std::string message[2];  // each written by its own rank
  auto rank = [&](int own_rank, const JobLaunch& launch) {
    std::string value;
    const std::string error_text = error_of([&] {
      Reactor reactor;
      Rendezvous rendezvous(reactor, launch, world, Seconds(20));
      rendezvous.store().set(cat("rank", own_rank),
                             cat(print(rendezvous.token()), " ", rendezvous.interface(), " ", world));
      value = rendezvous.store().wait(cat("rank", 1 - own_rank));
      rendezvous.store().barrier("end", 2);
    });
    message[own_rank] = error_text == "no error" ? cat("read: ", value) : error_text;
  };
  std::thread other([&] { rank(1, launch_1); });
  rank(0, launch_0);
  other.join();
  return message[0] == message[1] ? message[0] : cat(message[0], " | ", message[1]);
}

TEST(Rendezvous, EachWorldHasItsOwnStore) {
  std::string token = print(derive_token("a secret of sixteen"));
  for (int world : {0, 1, 2}) EXPECT_EQ(exchange(launch(0, 2), launch(1, 2), world), cat("read: ", token, "  ", world));
}

TEST(Rendezvous, WorldsCanExistAtTheSameTime) {
  Reactor reactor;
  Rendezvous first(reactor, launch(0, 2), 0), second(reactor, launch(0, 2), 1);
  first.store().set("a", "first");
  EXPECT_EQ(second.store().get("a"), std::nullopt);
  Rendezvous joined(reactor, launch(1, 2), 1);
  joined.store().set("a", "second");
  EXPECT_EQ(second.store().get("a"), "second");
}

TEST(Rendezvous, WithoutATokenRankZeroCreatesOne) {
  std::string message = exchange(launch(0, 2, false), launch(1, 2, false), 0),
              second_message = exchange(launch(0, 2, false), launch(1, 2, false), 0);
  EXPECT_THAT(message, HasSubstr("read: "));
  EXPECT_EQ(message.size(), 6u + 64 + 3);
  EXPECT_NE(message, second_message) << "each rendezvous must create a new token";
}

TEST(Rendezvous, OnSeveralHostsRanksUseTheInterfaceThatReachesRankZero) {
  int port = free_ports();
  std::string token = print(derive_token("a secret of sixteen"));
  EXPECT_EQ(exchange(launch_on_hosts(0, 2, "localhost", port), launch_on_hosts(1, 2, "127.0.0.1", port), 0),
            cat("read: ", token, " 127.0.0.1 0"));
  EXPECT_THAT(error_of([] { address_of_host("no-such-host.invalid"); }),
              HasSubstr("cannot resolve host 'no-such-host.invalid': "));
  EXPECT_EQ(address_of_host("127.0.0.9"), "127.0.0.9");
}

TEST(Rendezvous, ConsecutiveWorldsUseEightPorts) {
  const int port = free_ports();
  for (int world = 0; world < 20; ++world)
    EXPECT_THAT(exchange(launch_on_hosts(0, 2, "localhost", port), launch_on_hosts(1, 2, "127.0.0.1", port), world),
                ::testing::StartsWith("read: "))
        << world;
}

TEST(Rendezvous, ARankWithADifferentTokenIsRejected) {
  Reactor reactor;
  Rendezvous zero(reactor, launch(0, 2), 0);
  JobLaunch other = launch(1, 2);
  other.token = derive_token("another of sixteen");
  std::string message = error_of([&] { Rendezvous(reactor, other, 0, Seconds(2)); });
  EXPECT_THAT(message, HasSubstr("rank 1 of 2 from karez run cannot join the others: the store at @karez-store-test-"));
}

TEST(Rendezvous, ARendezvousNeedsRankZero) {
  Reactor reactor;
  EXPECT_THAT(error_of([&] { Rendezvous(reactor, launch(1, 2), 7, Seconds(0.2)); }),
              HasSubstr("cannot join the others: cannot reach @karez-store-test-"));
  Rendezvous zero(reactor, launch(0, 2), 0);
  EXPECT_THAT(error_of([&] { Rendezvous(reactor, launch(0, 2), 0); }),
              HasSubstr("is another job of the same name running here"));
  EXPECT_THAT(error_of([&] { Rendezvous(reactor, launch_on_hosts(0, 2, "192.0.2.1", 4711), 0); }),
              HasSubstr("is rank 0 on a different host from the one given"));
  EXPECT_THAT(error_of([&] { Rendezvous(reactor, launch(0, 1), 0); }), HasSubstr("needs at least 2 ranks"));
  JobLaunch without_token = launch_on_hosts(0, 2, "127.0.0.1", 4711);
  without_token.token.reset();
  EXPECT_THAT(error_of([&] { Rendezvous(reactor, without_token, 0); }),
              HasSubstr("the store at 127.0.0.1:4711 needs a token"));
}

// Any process may use a name; the kernel reports the user at the other end.
TEST(Rendezvous, AnotherUserIsRejectedAndNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Address name{cat("@karez-user-test-", getpid()), 0};
  const Token token = derive_token("a token that both have");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  ChildProcess dialler([&] {  // while this process has one thread
    char byte = 0;
    if (read(ready[0], &byte, 1) != 1 || setuid(65534) != 0) return 1;
    sockaddr_un socket_address{};  // `dial` would reject the other user
    socket_address.sun_family = AF_UNIX;
    std::memcpy(socket_address.sun_path, name.host.data(), name.host.size());
    socket_address.sun_path[0] = '\0';
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.host.size());
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&socket_address), size) != 0) return 3;
    return error_of([&] { authenticate(socket.get(), token, "test", 1, Seconds(5)); }) == "no error" ? 2 : 0;
  });
  const Address other_name{name.host + "-other", 0};
  ChildProcess listener_process([&] {
    if (setuid(65534) != 0) return 1;
    Address address = other_name;
    Descriptor listener = listen_at(address, 1);
    std::this_thread::sleep_for(std::chrono::seconds(10));
    return 0;
  });
  {
    Reactor reactor;
    Acceptor acceptor(reactor, name, token, "test", [](Descriptor, std::uint32_t) { ADD_FAILURE() << "accepted"; });
    ASSERT_EQ(write(ready[1], "x", 1), 1);
    EXPECT_EQ(dialler.wait(), 0);
    EXPECT_TRUE(await([&] { return acceptor.rejected() == 1; }));
    std::string message;
    EXPECT_TRUE(await([&] {  // until the process listens
      message = error_of([&] { dial(other_name, Seconds(1)); });
      return message.find("refused") == std::string::npos;
    }));
    EXPECT_THAT(message, HasSubstr("belongs to another user"));
  }
  listener_process.kill();
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace karez::comm
