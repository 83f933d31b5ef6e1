// Tests of the encoding of control messages: fields survive, short messages stay short, and invalid bytes are refused.
#include "karez/runtime/control_message.h"

#include <gtest/gtest.h>

#include <random>

#include "karez/runtime/control_links.h"

namespace karez::runtime {
namespace {

ControlMessage call() {
  ControlMessage out;
  out.op = 7;
  out.hash = 0x123456789abcdef0;
  out.text = "a call of function 'step' (train.py:12)";
  return out;
}

TEST(ControlMessage, FieldsSurviveEncodingAndDecoding) {
  ControlMessage begun = call();
  begun.sum = 3;
  begun.inputs.values[15] = 9;
  begun.awaited = true;
  const ControlMessage back = decode_control_message(encode(begun)).value();
  EXPECT_EQ(back.kind, ControlMessage::Kind::begun);
  EXPECT_EQ(back.op, 7u);
  EXPECT_EQ(back.hash, begun.hash);
  EXPECT_EQ(back.sum, 3u);
  EXPECT_EQ(back.inputs, begun.inputs);
  EXPECT_TRUE(back.awaited);
  EXPECT_EQ(back.text, begun.text);

  ControlMessage ended;
  ended.kind = ControlMessage::Kind::ended;
  ended.rank_time[Phase::source] = 0.25;
  ended.rank_time.work = 5;
  const ControlMessage spent = decode_control_message(encode(ended)).value();
  EXPECT_EQ(spent.rank_time.seconds, ended.rank_time.seconds);
  EXPECT_EQ(spent.rank_time.work, 5u);

  for (const LaunchEnd& end : {LaunchEnd{}, LaunchEnd{{}, true, false}, LaunchEnd{{}, false, true},
                               LaunchEnd{Error(ErrorKind::data, "", "a.py:1"), true, true},
                               LaunchEnd{Error(ErrorKind::user, "it broke"), false, false}}) {
    ControlMessage of_launch = ControlMessage::of_end(9, end);
    of_launch.rank_time.work = 2;
    const ControlMessage came = decode_control_message(encode(of_launch)).value();
    EXPECT_EQ(came.op, 9u);
    EXPECT_EQ(came.rank_time.work, 2u);
    EXPECT_EQ(came.end().skipped, end.skipped);
    EXPECT_EQ(came.end().wrote, end.wrote);
    ASSERT_EQ(came.end().error.has_value(), end.error.has_value());
    if (!end.error) continue;
    EXPECT_EQ(came.end().error->kind, end.error->kind);
    EXPECT_STREQ(came.end().error->what(), end.error->what());
    EXPECT_EQ(came.end().error->where, end.error->where);
  }
  ControlMessage invalidated;
  invalidated.kind = ControlMessage::Kind::invalidated;
  invalidated.op = 4;
  invalidated.awaited = true;
  EXPECT_EQ(decode_control_message(encode(invalidated)).value().kind, ControlMessage::Kind::invalidated);
  EXPECT_TRUE(decode_control_message(encode(invalidated)).value().awaited);

  ControlMessage requested = call();
  requested.kind = ControlMessage::Kind::requested;
  requested.round = 3;
  EXPECT_EQ(decode_control_message(encode(requested)).value().round, 3u);

  ControlMessage refused = call();
  refused.kind = ControlMessage::Kind::refused;
  refused.reason = Refusal::Reason::withdrawn;
  refused.ranks[0] = 2;
  refused.ranks[1] = -1;
  const ControlMessage why = decode_control_message(encode(refused)).value();
  EXPECT_EQ(why.reason, Refusal::Reason::withdrawn);
  EXPECT_EQ(why.ranks[0], 2);
  EXPECT_EQ(why.ranks[1], -1);

  ControlMessage failed = ControlMessage::of_failure(Error(ErrorKind::hang, "a rank has stopped", "net.cc:3"), 4);
  failed.op = 2;
  const ControlMessage told = decode_control_message(encode(failed)).value();
  EXPECT_EQ(told.failure().kind, ErrorKind::hang);
  EXPECT_STREQ(told.failure().what(), "a rank has stopped");
  EXPECT_EQ(told.failure().where, "net.cc:3");
  EXPECT_EQ(told.lost, 4);
}

TEST(ControlMessage, EachMessageOfALaunchFitsOnePacket) {
  ControlMessage begun = call(), ended;
  begun.inputs.values.fill(1);
  ended.kind = ControlMessage::Kind::ended;
  ended.rank_time.work = 1;
  for (const ControlMessage& note : {begun, ended}) EXPECT_EQ(packets_of(encode(note)).size(), 1u);
  EXPECT_EQ(encode(ControlMessage()).size(), 24u);
}

TEST(ControlMessage, LongTextsAreCutAndTakeSeveralPackets) {
  ControlMessage out = ControlMessage::of_failure(Error(ErrorKind::user, std::string(100'000, 'x')), {});
  const auto bytes = encode(out);
  EXPECT_EQ(decode_control_message(bytes).value().text, std::string(ControlMessage::max_text, 'x'));
  EXPECT_EQ(packets_of(bytes).size(), (4 + bytes.size() + 255) / 256);
}

TEST(ControlMessage, InvalidBytesAreRefused) {
  const auto good = encode(call());
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode_control_message(std::span(good).first(size))) << size;
  auto more = good;
  more.push_back({});
  EXPECT_FALSE(decode_control_message(more));
  auto kind = good;
  kind[0] = std::byte{99};
  EXPECT_FALSE(decode_control_message(kind));
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i) {  // nothing is read after their end, and a decoded message can be encoded again
    std::vector<std::byte> noise(random() % 100);
    for (std::byte& one : noise) one = static_cast<std::byte>(random());
    if (const auto note = decode_control_message(noise)) EXPECT_TRUE(decode_control_message(encode(*note)));
  }
}

}  // namespace
}  // namespace karez::runtime
