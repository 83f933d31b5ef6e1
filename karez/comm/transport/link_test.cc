// Tests of links in one process: order, credits, limits, counters and notifications.
#include <gtest/gtest.h>

#include "karez/base/error.h"
#include "karez/comm/collective/collective.h"
#include "karez/comm/collective/collective_run.h"
#include "karez/comm/transport/test_local_hub.h"

namespace karez::comm {
namespace {
using test::TestHub;

std::byte* bytes(auto& items) { return reinterpret_cast<std::byte*>(&items[0]); }

TEST(Link, ASendWaitsForAPostedReceive) {
  TestHub hub(2);
  Link &a = hub.endpoint(0).link(1), &b = hub.endpoint(1).link(0);
  std::string from = "hello", to = ".....";
  a.send(bytes(from), 5);
  EXPECT_EQ(a.sent(), 0);
  EXPECT_EQ(to, ".....");
  EXPECT_EQ(hub.bytes_sent(), 0);
  b.post_receive(bytes(to), 5);
  EXPECT_EQ(to, "hello");
  EXPECT_EQ(a.sent(), 1);
  EXPECT_EQ(b.received(), 1);
  EXPECT_EQ(b.sent(), 0);
  EXPECT_EQ(a.bytes_sent(), 5);
  EXPECT_EQ(b.bytes_sent(), 0);
}

TEST(Link, AWaitingMemberIsWokenOnceUntilItAcknowledges) {
  TestHub hub(3);
  int wakes = 0;
  hub.endpoint(0).set_wake([&] { ++wakes; });
  char to[2];
  hub.endpoint(0).link(1).post_receive(bytes(to), 1);
  hub.endpoint(0).link(2).post_receive(reinterpret_cast<std::byte*>(to + 1), 1);
  EXPECT_EQ(wakes, 0);
  char from = 'x';
  hub.endpoint(1).link(0).send(reinterpret_cast<std::byte*>(&from), 1);
  hub.endpoint(2).link(0).send(reinterpret_cast<std::byte*>(&from), 1);
  EXPECT_EQ(wakes, 1);
  hub.endpoint(0).notifier().acknowledge();
  hub.endpoint(0).link(1).send(bytes(to), 1);
  hub.endpoint(1).link(0).post_receive(reinterpret_cast<std::byte*>(&from), 1);
  EXPECT_EQ(wakes, 2);
}

// A link on which a message arrives just after a member has read the counter of arrived messages.
class LateLink : public Link {
 public:
  explicit LateLink(Notifier& notifier) : notifier_(notifier) {}
  void post_receive(std::byte*, std::int64_t) override {}
  void send(const std::byte*, std::int64_t) override { ++sent_; }
  std::int64_t received() const override {
    const std::int64_t old_count = received_;
    if (++read_count_ == 2) {  // the first read is that of the run's start
      ++received_;
      notifier_.notify();
    }
    return old_count;
  }
  std::int64_t sent() const override { return sent_; }
  std::int64_t bytes_sent() const override { return 0; }
  int depth() const override { return 8; }

 private:
  Notifier& notifier_;
  mutable std::int64_t received_ = 0, read_count_ = 0;
  std::int64_t sent_ = 0;
};

TEST(Link, AMessageThatArrivesJustAfterTheReadNotifiesAgain) {
  Notifier notifier;
  Endpoint endpoint(0, 2, notifier);
  endpoint.connect(1, std::make_unique<LateLink>(notifier));
  int wakes = 0;
  endpoint.set_wake([&] { ++wakes; });
  CollectiveSpec spec;
  spec.algorithm = CollectiveAlgorithm::flat;
  spec.members = 2;
  spec.in = spec.out = View(DType::f32, {4});
  spec.reduce = [](std::byte*, const std::byte*, std::int64_t) {};
  CollectiveRun run(spec, endpoint);
  float in[4] = {}, out[4] = {};
  alignas(64) std::byte staging[64];
  run.start(reinterpret_cast<std::byte*>(in), reinterpret_cast<std::byte*>(out), staging);
  notifier.notify();  // an earlier event that the run acknowledges
  ASSERT_EQ(wakes, 1);
  EXPECT_FALSE(run.advance());
  EXPECT_EQ(wakes, 2) << "without a second notification, no thread would read the counter again";
  EXPECT_TRUE(run.advance());
}

TEST(Link, AnEndpointKeepsItsFirstFailure) {
  Notifier notifier;
  int wakes = 0;
  notifier.set_wake([&] { ++wakes; });
  Endpoint endpoint(0, 1, notifier);
  EXPECT_NO_THROW(endpoint.check());
  EXPECT_EQ(notifier.failure(), nullptr);
  notifier.notify_failure(Error(ErrorKind::peer, "rank 2 has exited"));
  notifier.acknowledge();
  notifier.notify_failure(Error(ErrorKind::peer, "rank 1 has exited"));
  EXPECT_EQ(wakes, 2);
  ASSERT_TRUE(notifier.failed());
  EXPECT_STREQ(notifier.failure()->what(), "rank 2 has exited");
  try {
    endpoint.check();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 2 has exited");
    EXPECT_EQ(error.kind, ErrorKind::peer);
  }
}

TEST(Link, MessagesMatchReceivesInOrder) {
  TestHub hub(2, 3);
  Link &a = hub.endpoint(0).link(1), &b = hub.endpoint(1).link(0);
  int from[12], to[12];
  int send_count = 0, receive_count = 0;
  for (int i = 0; i < 12; ++i) from[i] = i, to[i] = -1;
  while (b.received() < 12) {
    while (send_count < 12 && send_count - a.sent() < a.depth())
      a.send(reinterpret_cast<std::byte*>(&from[send_count]), sizeof(int)), ++send_count;
    b.post_receive(reinterpret_cast<std::byte*>(&to[receive_count]), sizeof(int)), ++receive_count;
  }
  for (int i = 0; i < 12; ++i) EXPECT_EQ(to[i], i);
}

TEST(Link, ALinkRejectsMessagesBeyondItsDepth) {
  TestHub hub(2, 2);
  Link& a = hub.endpoint(0).link(1);
  char c = 'x';
  for (int i = 0; i < 2; ++i) a.send(reinterpret_cast<std::byte*>(&c), 1);
  try {
    a.send(reinterpret_cast<std::byte*>(&c), 1);
    ADD_FAILURE();
  } catch (const Error& error) { EXPECT_STREQ(error.what(), "link 0 -> 1: more than 2 sends are pending"); }
}

TEST(Link, ASizeMismatchIsAnErrorForTheSideThatComesLater) {
  TestHub hub(2);
  char c[4];
  hub.endpoint(0).link(1).send(bytes(c), 4);
  try {
    hub.endpoint(1).link(0).post_receive(bytes(c), 3);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "link 0 -> 1: a message of 4 bytes does not match a receive of 3 bytes");
  }
}

TEST(Link, AHubNeedsMembersAndDepth) {
  EXPECT_THROW(TestHub(0), Error);
  EXPECT_THROW(TestHub(2, 0), Error);
  TestHub hub(1);
  EXPECT_EQ(hub.bytes_sent(), 0);
  EXPECT_THROW(hub.endpoint(1), Error);
}

}  // namespace
}  // namespace karez::comm
