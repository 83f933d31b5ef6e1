// Tests of the channel table: opening and erasing channels, its limits, and the report of a failure.
#include "karez/comm/transport/channel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_error.h"

namespace karez::comm {
namespace {
using ::testing::HasSubstr;

TEST(ChannelTable, AChannelNumberCanBeOpenedOnlyOnce) {
  ChannelTable table("rank 1");
  Notifier notifier;
  table.open(7, 2, notifier);
  EXPECT_THAT(error_of([&] { table.open(7, 2, notifier); }), HasSubstr("channel 7 to rank 1 has already been opened"));
}

TEST(ChannelTable, BeforeTheLinkIsOpenedAPeerMayPostReceivesUpToItsDepth) {
  ChannelTable table("rank 1");
  Notifier notifier;
  table.find_or_create(7)->credit_count = 3;
  EXPECT_THAT(error_of([&] { table.open(7, 2, notifier); }),
              HasSubstr("channel 7: rank 1 has posted 3 receives, more than the link's depth of 2"));
  EXPECT_EQ(table.open(7, 3, notifier).credit_count, 3);
}

TEST(ChannelTable, AChannelIsErasedOnceBothEndsHaveClosedItAndNoFrameIsInTransit) {
  ChannelTable table("rank 1");
  Notifier notifier;
  Channel& channel = table.open(7, 1, notifier);
  channel.close_sent = true;
  table.erase_if_closed(channel);
  ASSERT_EQ(table.find(7), &channel) << "the channel must remain until the peer has closed it";
  channel.closed_by_peer = true;
  channel.frames_in_batch = 1;
  table.erase_if_closed(channel);
  ASSERT_EQ(table.find(7), &channel) << "the channel must remain while a frame is being written";
  channel.frames_in_batch = 0;
  channel.arrival = Channel::Arrival::buffer;
  table.erase_if_closed(channel);
  ASSERT_EQ(table.find(7), &channel) << "the channel must remain while a frame is arriving";
  channel.arrival = Channel::Arrival::none;
  table.erase_if_closed(channel);
  EXPECT_EQ(table.find(7), nullptr);
}

TEST(ChannelTable, APeerCannotNameAChannelThatItHasClosedOrExceedTheChannelLimit) {
  ChannelTable table("rank 1");
  table.find_or_create(0)->closed_by_peer = true;
  EXPECT_EQ(table.find_or_create(0), nullptr);
  for (std::uint64_t number = 1; number < ChannelTable::max_channels; ++number)
    ASSERT_NE(table.find_or_create(number), nullptr);
  EXPECT_EQ(table.find_or_create(ChannelTable::max_channels), nullptr);
}

TEST(ChannelTable, AFailureIsReportedToAllLinksIncludingThoseOpenedLater) {
  ChannelTable table("rank 1");
  Notifier open_notifier, closed_notifier, later_notifier;
  table.open(1, 1, open_notifier);
  table.open(2, 1, closed_notifier).notifier = nullptr;
  table.set_end_reason("it ended");
  table.set_end_reason("a later reason");
  EXPECT_FALSE(open_notifier.failed());
  table.publish_failure();
  ASSERT_TRUE(open_notifier.failed());
  EXPECT_STREQ(open_notifier.failure()->what(), "link to rank 1: it ended");
  EXPECT_FALSE(closed_notifier.failed());
  table.open(3, 1, later_notifier);
  EXPECT_TRUE(later_notifier.failed());
}

}  // namespace
}  // namespace karez::comm
