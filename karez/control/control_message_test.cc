// Tests of the encoding of control messages: all fields are decoded, short messages stay short, and invalid bytes are
// rejected.
#include "karez/control/control_message.h"

#include <gtest/gtest.h>

#include <random>

#include "karez/control/control_links.h"

namespace karez::control {
namespace {

ControlMessage make_call() {
  ControlMessage out;
  out.op = 7;
  out.hash = 0x123456789abcdef0;
  out.text = "a call of function 'step' (train.py:12)";
  return out;
}

TEST(ControlMessage, DecodedFieldsEqualTheEncodedOnes) {
  ControlMessage begun = make_call();
  begun.sum = 3;
  begun.inputs.values[15] = 9;
  begun.awaited = true;
  const ControlMessage decoded_begun = decode_control_message(encode(begun)).value();
  EXPECT_EQ(decoded_begun.kind, ControlMessage::Kind::begun);
  EXPECT_EQ(decoded_begun.op, 7u);
  EXPECT_EQ(decoded_begun.hash, begun.hash);
  EXPECT_EQ(decoded_begun.sum, 3u);
  EXPECT_EQ(decoded_begun.inputs, begun.inputs);
  EXPECT_TRUE(decoded_begun.awaited);
  EXPECT_EQ(decoded_begun.text, begun.text);

  ControlMessage ended;
  ended.kind = ControlMessage::Kind::ended;
  ended.rank_time[Phase::source] = 0.25;
  ended.rank_time.work = 5;
  const ControlMessage decoded_ended = decode_control_message(encode(ended)).value();
  EXPECT_EQ(decoded_ended.rank_time.seconds, ended.rank_time.seconds);
  EXPECT_EQ(decoded_ended.rank_time.work, 5u);

  for (const LaunchEnd& end : {LaunchEnd{}, LaunchEnd{{}, true, false}, LaunchEnd{{}, false, true},
                               LaunchEnd{Error(ErrorKind::data, "", "a.py:1"), true, true},
                               LaunchEnd{Error(ErrorKind::user, "it broke"), false, false}}) {
    ControlMessage of_launch = ControlMessage::of_end(9, end);
    of_launch.rank_time.work = 2;
    const ControlMessage decoded = decode_control_message(encode(of_launch)).value();
    EXPECT_EQ(decoded.op, 9u);
    EXPECT_EQ(decoded.rank_time.work, 2u);
    EXPECT_EQ(decoded.end().skipped, end.skipped);
    EXPECT_EQ(decoded.end().has_written, end.has_written);
    ASSERT_EQ(decoded.end().error.has_value(), end.error.has_value());
    if (!end.error) continue;
    EXPECT_EQ(decoded.end().error->kind, end.error->kind);
    EXPECT_STREQ(decoded.end().error->what(), end.error->what());
    EXPECT_EQ(decoded.end().error->where, end.error->where);
  }
  ControlMessage invalidated;
  invalidated.kind = ControlMessage::Kind::invalidated;
  invalidated.op = 4;
  invalidated.awaited = true;
  EXPECT_EQ(decode_control_message(encode(invalidated)).value().kind, ControlMessage::Kind::invalidated);
  EXPECT_TRUE(decode_control_message(encode(invalidated)).value().awaited);

  ControlMessage requested = make_call();
  requested.kind = ControlMessage::Kind::requested;
  requested.round = 3;
  EXPECT_EQ(decode_control_message(encode(requested)).value().round, 3u);

  ControlMessage refused = make_call();
  refused.kind = ControlMessage::Kind::refused;
  refused.reason = Refusal::Reason::withdrawn;
  refused.ranks[0] = 2;
  refused.ranks[1] = -1;
  const ControlMessage decoded_refusal = decode_control_message(encode(refused)).value();
  EXPECT_EQ(decoded_refusal.reason, Refusal::Reason::withdrawn);
  EXPECT_EQ(decoded_refusal.ranks[0], 2);
  EXPECT_EQ(decoded_refusal.ranks[1], -1);

  ControlMessage failed = ControlMessage::of_failure(Error(ErrorKind::hang, "a rank has stopped", "net.cc:3"), 4);
  failed.op = 2;
  const ControlMessage decoded_failure = decode_control_message(encode(failed)).value();
  EXPECT_EQ(decoded_failure.failure().kind, ErrorKind::hang);
  EXPECT_STREQ(decoded_failure.failure().what(), "a rank has stopped");
  EXPECT_EQ(decoded_failure.failure().where, "net.cc:3");
  EXPECT_EQ(decoded_failure.lost, 4);
}

TEST(ControlMessage, EachMessageOfALaunchFitsOnePacket) {
  ControlMessage begun = make_call(), ended;
  begun.inputs.values.fill(1);
  ended.kind = ControlMessage::Kind::ended;
  ended.rank_time.work = 1;
  for (const ControlMessage& message : {begun, ended}) EXPECT_EQ(packets_of(encode(message)).size(), 1u);
  EXPECT_EQ(encode(ControlMessage()).size(), 24u);
}

TEST(ControlMessage, LongTextsAreCutAndTakeSeveralPackets) {
  ControlMessage out = ControlMessage::of_failure(Error(ErrorKind::user, std::string(100'000, 'x')), {});
  const auto bytes = encode(out);
  EXPECT_EQ(decode_control_message(bytes).value().text, std::string(ControlMessage::max_text, 'x'));
  EXPECT_EQ(packets_of(bytes).size(), (4 + bytes.size() + 255) / 256);
}

TEST(ControlMessage, InvalidBytesAreRejected) {
  const auto good = encode(make_call());
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode_control_message(std::span(good).first(size))) << size;
  auto too_long = good;
  too_long.push_back({});
  EXPECT_FALSE(decode_control_message(too_long));
  auto unknown_kind = good;
  unknown_kind[0] = std::byte{99};
  EXPECT_FALSE(decode_control_message(unknown_kind));
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i) {  // reads no byte after the end; a decoded message can be encoded
    std::vector<std::byte> noise(random() % 100);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    if (const auto message = decode_control_message(noise)) { EXPECT_TRUE(decode_control_message(encode(*message))); }
  }
}

}  // namespace
}  // namespace karez::control
