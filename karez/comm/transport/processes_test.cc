// Tests of links between two processes: their traffic, and the errors when one of them ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>

#include "karez/base/error.h"
#include "karez/comm/collective/test_collectives.h"
#include "karez/comm/transport/test_leak_check.h"
#include "karez/comm/transport/test_links.h"
#include "karez/comm/transport/test_socket_pairs.h"

namespace karez::comm {
namespace {
using namespace test;

std::string peer_error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind == ErrorKind::peer ? error.what() : cat("not of kind peer: ", error.what());
  }
  return "no error";
}

class Processes : public LeakCheckedTest {
 protected:
  // Starts a process with side 1 of a connection; side 0 is in this process.
  void begin(const std::function<int(ConnectionEnd&)>& body) {
    auto sockets = GetParam().sockets(), ready = socket_pair();
    child = std::make_unique<ChildProcess>([&] {
      sockets[0].close();
      ready[0].close();
      ConnectionEnd side(GetParam(), std::move(sockets[1]), 1);
      ready[1].close();
      return body(side);
    });
    sockets[1].close();
    ready[1].close();
    local = std::make_unique<ConnectionEnd>(GetParam(), std::move(sockets[0]), 0);
    std::byte any{};
    EXPECT_TRUE(await([&] { return ::read(ready[0].get(), &any, 1) == 0; })) << "the process has not started";
  }

  // Checks that the link to the ended peer reports the failure in time, with the peer's name.
  void expect_failure(Endpoint& end) {
    EXPECT_TRUE(await([&] { return end.link(1).failure() != nullptr; }, detection_seconds));
    ASSERT_TRUE(await([&] { return end.link(1).failure() != nullptr; }));
    EXPECT_THAT(end.link(1).failure()->what(), ::testing::HasSubstr("rank 1 (test, process 1)"));
    EXPECT_EQ(end.link(1).failure()->kind, ErrorKind::peer);
    EXPECT_TRUE(await([&] { return end.notifier().failed(); })) << "the notifier must report the failure of its link";
    EXPECT_THAT(peer_error_of([&] { end.check(); }), ::testing::HasSubstr("rank 1"));
    std::byte any{};
    EXPECT_THAT(peer_error_of([&] { end.link(1).send(&any, 1); }), ::testing::HasSubstr("rank 1"));
    EXPECT_THAT(peer_error_of([&] { end.link(1).post_receive(&any, 1); }), ::testing::HasSubstr("rank 1"));
  }

  std::unique_ptr<ChildProcess> child;
  std::unique_ptr<ConnectionEnd> local;
};

INSTANTIATE_TEST_SUITE_P(Transports, Processes, process_transports(), transport_name);

TEST_P(Processes, RandomTrafficBetweenTwoProcessesArrivesUnchanged) {
  for (bool polling : {false, true}) {
    Traffic traffic{polling ? 21u : 22u, 150, 300000};
    auto serve = [&](ConnectionEnd& side) {
      return traffic.serve({&side.open(7, 1), &side.open(8, 4)}, side.side(), polling);
    };
    begin([&](ConnectionEnd& side) {
      std::string error_text = serve(side);
      if (!error_text.empty()) std::fprintf(stderr, "in the child: %s\n", error_text.c_str());
      return error_text.empty() ? 0 : 1;
    });
    EXPECT_EQ(serve(*local), "");
    EXPECT_EQ(child->wait(), 0);
    local.reset();
  }
}

TEST_P(Processes, AKilledProcessIsReportedAtOnceWithItsName) {
  begin([](ConnectionEnd&) {
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return 0;
  });
  Endpoint& end = local->open(1, 4);
  std::atomic<int> wakes{0};
  end.set_wake([&] { ++wakes; });
  std::vector<std::byte> from(100), to(100, std::byte{7});
  end.link(1).post_receive(to.data(), 100);
  for (int i = 0; i < 4; ++i) end.link(1).send(from.data(), 100);  // these wait forever
  EXPECT_EQ(wakes, 0);
  child->kill();
  expect_failure(end);
  EXPECT_GE(wakes, 1);
  EXPECT_EQ(to, std::vector<std::byte>(100, std::byte{7}));
  EXPECT_EQ(end.link(1).sent(), 0);
  Endpoint& later = local->open(2, 4);
  EXPECT_NE(later.link(1).failure(), nullptr) << "a link that is opened later must fail from the start";
  EXPECT_TRUE(later.notifier().failed());
  local.reset();
  child.reset();
}

TEST_P(Processes, AProcessKilledInTheMiddleOfALongMessageIsReported) {
  constexpr std::int64_t size = 128 << 20;
  std::vector<std::byte> memory(size);
  // Kills the peer during the message. Returns false if this thread was too late and the message was already complete.
  auto kill_in_message = [&](bool sends) {
    begin([&](ConnectionEnd& side) {
      Endpoint& end = side.open(1, 1);
      if (sends) end.link(0).post_receive(memory.data(), size);
      else end.link(0).send(memory.data(), size);
      std::this_thread::sleep_for(std::chrono::seconds(60));
      return 0;
    });
    Endpoint& end = local->open(1, 1);
    if (sends) {
      end.link(1).send(memory.data(), size);
      EXPECT_TRUE(await([&] { return end.link(1).bytes_sent() > 0; }));
    } else {
      end.link(1).post_receive(memory.data(), size);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    child->kill();
    expect_failure(end);
    const bool incomplete = end.link(1).received() + end.link(1).sent() == 0;
    local.reset();
    child.reset();
    return incomplete;
  };
  for (bool sends : {true, false}) {
    bool incomplete = false;
    for (int attempt = 0; attempt < 20 && !incomplete; ++attempt) incomplete = kill_in_message(sends);
    EXPECT_TRUE(incomplete) << "the peer was never killed before the end of a message that it "
                            << (sends ? "receives" : "sends");
  }
}

TEST_P(Processes, MessagesThatArriveBeforeThePeerEndsAreReceived) {
  begin([](ConnectionEnd& side) {
    std::byte bytes[3] = {std::byte{1}, std::byte{2}, std::byte{3}}, go{};
    Endpoint& end = side.open(1, 4);
    end.link(0).post_receive(&go, 1);
    if (!await([&] { return end.link(0).received() == 1; })) return 1;
    for (auto& b : bytes) end.link(0).send(&b, 1);
    return await([&] { return end.link(0).sent() == 3; }) ? 0 : 1;
  });
  Endpoint& end = local->open(1, 4);
  std::byte to[4] = {}, go{};
  for (auto& b : to) end.link(1).post_receive(&b, 1);
  end.link(1).send(&go, 1);
  EXPECT_EQ(child->wait(), 0);
  expect_failure(end);
  EXPECT_EQ(end.link(1).received(), 3);
  EXPECT_EQ(to[2], std::byte{3});
  local.reset();
}

TEST_P(Processes, ACollectiveReportsTheNameOfTheEndedRank) {
  Case c = make_all_reduce(DType::f32, Op::sum, 2, {1000000}, CollectiveAlgorithm::ring, 4096, 3);
  begin([&](ConnectionEnd& side) {
    Endpoint& end = side.open(1, 4);
    CollectiveRun run(c.specs[1], end);
    run.start(c.in[1].data(), c.out[1].data(), c.staging[1].data());
    while (end.bytes_sent() < 500000) run.advance();
    return 0;  // in the middle of the collective
  });
  Endpoint& end = local->open(1, 4);
  CollectiveRun run(c.specs[0], end);
  run.start(c.in[0].data(), c.out[0].data(), c.staging[0].data());
  std::string error_text;
  EXPECT_TRUE(await([&] {
    error_text = peer_error_of([&] { run.advance(); });
    return error_text != "no error" || !run.active();
  }));
  EXPECT_THAT(error_text, ::testing::HasSubstr("rank 1 (test, process 1)"));
  EXPECT_TRUE(run.active());
  run.abandon();
  EXPECT_EQ(child->wait(), 0);
  local.reset();
}

// Rank 2 ends while this rank waits for rank 1, which is idle.
TEST_P(Processes, ACollectiveFailsWhenAnyOfItsLinksFails) {
  auto idle_sockets = GetParam().sockets(), killed_sockets = GetParam().sockets();
  // Closed by a process once it has started: if it were killed earlier, a segment of UCX would remain.
  auto idle_ready = socket_pair(), killed_ready = socket_pair();
  auto stay_idle = [&](Descriptor& socket, Descriptor& ready) {
    ConnectionEnd side(GetParam(), std::move(socket), 1);
    side.open(1, 8);
    ready.close();
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return 0;
  };
  auto close = [&] { idle_sockets[0].close(), killed_sockets[0].close(); };
  ChildProcess idle_process([&] {
    return close(), killed_sockets[1].close(), killed_ready[1].close(), stay_idle(idle_sockets[1], idle_ready[1]);
  });
  idle_sockets[1].close();
  idle_ready[1].close();
  ChildProcess killed_process([&] { return close(), stay_idle(killed_sockets[1], killed_ready[1]); });
  killed_sockets[1].close();
  killed_ready[1].close();
  {
    Reactor reactor;
    Connection to_idle(reactor, GetParam().wire(std::move(idle_sockets[0]), 0), "rank 1");
    Connection to_killed(reactor, GetParam().wire(std::move(killed_sockets[0]), 0), "rank 2");
    Notifier notifier;
    std::atomic<int> wakes{0};
    Endpoint end(0, 3, notifier);
    end.set_wake([&] { ++wakes; });
    end.connect(1, to_idle.open(1, 8, notifier));
    end.connect(2, to_killed.open(1, 8, notifier));
    Case c = make_all_reduce(DType::f32, Op::sum, 3, {100}, CollectiveAlgorithm::flat, 4096, 3);
    CollectiveRun run(c.specs[0], end);
    run.start(c.in[0].data(), c.out[0].data(), c.staging[0].data());
    EXPECT_FALSE(run.advance());
    std::byte any{};
    for (Descriptor* ready : {&idle_ready[0], &killed_ready[0]})
      ASSERT_TRUE(await([&] { return ::read(ready->get(), &any, 1) == 0; }));
    const int initial_wakes = wakes;
    killed_process.kill();
    ASSERT_TRUE(await([&] { return wakes > initial_wakes; }));
    EXPECT_THAT(peer_error_of([&] { run.advance(); }), ::testing::HasSubstr("rank 2"));
    EXPECT_EQ(end.link(1).failure(), nullptr);
    run.abandon();
  }
  idle_process.kill();
}

}  // namespace
}  // namespace karez::comm
