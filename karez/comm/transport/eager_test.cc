// Tests of the eager protocol: which receives are announced, and which messages are sent without a credit.
#include "karez/comm/transport/eager.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "karez/base/error.h"
#include "karez/comm/transport/test_leak_check.h"
#include "karez/comm/transport/test_raw_wire.h"

namespace karez::comm {
namespace {
using namespace test;

class EagerTest : public LeakCheckedTest {};
INSTANTIATE_TEST_SUITE_P(Transports, EagerTest, process_transports(), transport_name);

TEST_P(EagerTest, PostedReceivesAreAnnouncedOnlyWhenTheirMessagesNeedACredit) {
  RawConnectionPair pair(GetParam());
  Link& link = pair.side.open(1, 100).link(1);
  std::string to(300000, '.');
  link.post_receive(address_in(to), 10);
  EXPECT_EQ(pair.read(24), make_frame(1, 0, 1, 10)) << "the first receive must be announced";
  for (int i = 0; i < 64; ++i) link.post_receive(address_in(to), 10);
  EXPECT_EQ(pair.read(0), "");
  link.post_receive(address_in(to), 20);
  EXPECT_EQ(pair.read(24), make_frame(1, 64, 1, 20))
      << "the credit must include the 64 receives that were not announced";
  link.post_receive(address_in(to), EagerWindow::bytes - 1);
  link.post_receive(address_in(to), 1);
  EXPECT_EQ(pair.read(0), "");
  link.post_receive(address_in(to), 1);
  EXPECT_EQ(pair.read(24), make_frame(1, 2, 1, 1)) << "a receive must be announced if the eager window is exceeded";
  link.post_receive(address_in(to), EagerWindow::bytes + 1);
  EXPECT_EQ(pair.read(24), make_frame(1, 0, 1, EagerWindow::bytes + 1));
}

TEST_P(EagerTest, ShortMessagesAreSentWithoutACreditWithinTheEagerWindow) {
  std::string from(300000, 'x');
  RawConnectionPair pair(GetParam());
  Link &short_link = pair.side.open(1, 100).link(1), &long_link = pair.side.open(2, 100).link(1);
  short_link.send(address_in(from), 1);
  EXPECT_EQ(pair.read(0), "") << "no message may be sent before the peer has opened the link";
  pair.write(make_frame(1, 0, 1, 1));
  for (int i = 0; i < 70; ++i) short_link.send(address_in(from), 1);
  EXPECT_EQ(std::ssize(pair.read(65 * 25)), 65 * 25);
  EXPECT_EQ(short_link.sent(), 65);
  pair.write(make_frame(1, 2, 1, 1));
  EXPECT_EQ(std::ssize(pair.read(3 * 25)), 3 * 25);
  pair.write(make_frame(1, 0, 2, 5));
  long_link.send(address_in(from), 5);
  EXPECT_EQ(std::ssize(pair.read(24 + 5)), 24 + 5);
  long_link.send(address_in(from), EagerWindow::bytes - 1);
  long_link.send(address_in(from), 1);
  long_link.send(address_in(from), 1);
  EXPECT_EQ(std::ssize(pair.read(24 + EagerWindow::bytes - 1 + 25)), 24 + EagerWindow::bytes - 1 + 25);
  pair.write(make_frame(1, 0, 2, EagerWindow::bytes - 1));
  EXPECT_EQ(std::ssize(pair.read(25)), 25);
  long_link.send(address_in(from), EagerWindow::bytes + 1);
  EXPECT_EQ(std::ssize(pair.read(0)), 0) << "a message longer than the eager window must wait for a credit";
  pair.write(make_frame(1, 2, 2, EagerWindow::bytes + 1));
  EXPECT_EQ(std::ssize(pair.read(24 + EagerWindow::bytes + 1)), 24 + EagerWindow::bytes + 1);
}

TEST_P(EagerTest, AMessageThatArrivedBeforeTheEndFillsALaterReceive) {
  RawConnectionPair pair(GetParam());
  Link& link = pair.side.open(1, 4).link(1);
  std::string to(3, '.');
  link.post_receive(address_in(to), 1);
  pair.write(make_frame(2, 1, 1, 1, "x") + make_frame(2, 1, 1, 1, "y"));
  (*pair.wire)->finish_writing();
  ASSERT_TRUE(await([&] { return link.failure() != nullptr; }));
  link.post_receive(address_in(to, 1), 1);
  EXPECT_EQ(link.received(), 2);
  EXPECT_EQ(to, "xy.");
  EXPECT_THROW(link.post_receive(address_in(to, 2), 1), Error);
}

TEST_P(EagerTest, AnEagerMessageMustMatchItsReceive) {
  for (bool posted_first : {true, false}) {  // true: the receive is posted before the last byte arrives
    RawConnectionPair pair(GetParam());
    Link& link = pair.side.open(1, 4).link(1);
    std::string to(10, '.');
    link.post_receive(address_in(to), 1);
    pair.write(make_frame(2, 1, 1, 1, "x") + make_frame(2, 4, 1, 4, "123"));
    ASSERT_TRUE(await([&] { return link.received() == 1; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!posted_first) pair.write("4");
    if (!posted_first) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    link.post_receive(address_in(to, 1), 3);
    if (posted_first) pair.write("4");
    ASSERT_TRUE(await([&] { return link.failure() != nullptr; }));
    EXPECT_STREQ(
        link.failure()->what(),
        "link to rank 1 (test, process 1): the peer violated the protocol: a message of 4 bytes does not match "
        "a receive of 3 bytes");
    EXPECT_EQ(to, "x.........");
  }
}

TEST_P(EagerTest, ClosingALinkWithEagerMessagesDoesNotEndTheConnection) {
  RawConnectionPair pair(GetParam());
  Notifier notifier;
  std::string to(10, '.'), open_text(1, '.');
  auto incomplete = pair.side.connection().open(1, 4, notifier), complete = pair.side.connection().open(2, 4, notifier),
       open = pair.side.connection().open(3, 4, notifier);
  for (Link* link : {incomplete.get(), complete.get()}) link->post_receive(address_in(to), 1);
  pair.write(make_frame(2, 1, 1, 1, "x") + make_frame(2, 1, 2, 1, "x") + make_frame(2, 2, 2, 2, "ab") +
             make_frame(2, 4, 1, 4, "12"));
  ASSERT_TRUE(await([&] { return incomplete->received() == 1 && complete->received() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  incomplete.reset();
  complete.reset();
  open->post_receive(address_in(open_text), 1);
  pair.write("34" + make_frame(2, 4, 1, 4, "5678") + make_frame(2, 2, 2, 2, "cd") + make_frame(2, 1, 3, 1, "y"));
  ASSERT_TRUE(await([&] { return open->received() == 1; }))
      << (open->failure() != nullptr ? open->failure()->what() : "");
  EXPECT_EQ(open_text, "y");
  EXPECT_EQ(to, "x.........");
}

}  // namespace
}  // namespace karez::comm
