// Notes as bytes: what goes in comes out, short ones are short, and bytes that are no note's are refused.
#include "karez/runtime/note.h"

#include <gtest/gtest.h>

#include <random>

#include "karez/runtime/note_lines.h"

namespace karez::runtime {
namespace {

Note call() {
  Note out;
  out.op = 7;
  out.hash = 0x123456789abcdef0;
  out.text = "a call of function 'step' (train.py:12)";
  return out;
}

TEST(Notes, FieldsComeBackAsTheyWere) {
  Note begun = call();
  begun.sum = 3;
  begun.inputs.of[15] = 9;
  begun.awaited = true;
  const Note back = decode_note(encode(begun)).value();
  EXPECT_EQ(back.kind, Note::Kind::begun);
  EXPECT_EQ(back.op, 7u);
  EXPECT_EQ(back.hash, begun.hash);
  EXPECT_EQ(back.sum, 3u);
  EXPECT_EQ(back.inputs, begun.inputs);
  EXPECT_TRUE(back.awaited);
  EXPECT_EQ(back.text, begun.text);

  Note ended;
  ended.kind = Note::Kind::ended;
  ended.spent[Phase::source] = 0.25;
  ended.spent.work = 5;
  const Note spent = decode_note(encode(ended)).value();
  EXPECT_EQ(spent.spent.seconds, ended.spent.seconds);
  EXPECT_EQ(spent.spent.work, 5u);

  for (const LaunchEnd& end : {LaunchEnd{}, LaunchEnd{{}, true, false}, LaunchEnd{{}, false, true},
                               LaunchEnd{Error(ErrorKind::data, "", "a.py:1"), true, true},
                               LaunchEnd{Error(ErrorKind::user, "it broke"), false, false}}) {
    Note of_launch = Note::of_end(9, end);
    of_launch.spent.work = 2;
    const Note came = decode_note(encode(of_launch)).value();
    EXPECT_EQ(came.op, 9u);
    EXPECT_EQ(came.spent.work, 2u);
    EXPECT_EQ(came.end().skipped, end.skipped);
    EXPECT_EQ(came.end().wrote, end.wrote);
    ASSERT_EQ(came.end().error.has_value(), end.error.has_value());
    if (!end.error) continue;
    EXPECT_EQ(came.end().error->kind, end.error->kind);
    EXPECT_STREQ(came.end().error->what(), end.error->what());
    EXPECT_EQ(came.end().error->where, end.error->where);
  }
  Note spoiled;
  spoiled.kind = Note::Kind::spoiled;
  spoiled.op = 4;
  spoiled.awaited = true;
  EXPECT_EQ(decode_note(encode(spoiled)).value().kind, Note::Kind::spoiled);
  EXPECT_TRUE(decode_note(encode(spoiled)).value().awaited);

  Note asked = call();
  asked.kind = Note::Kind::asked;
  asked.round = 3;
  EXPECT_EQ(decode_note(encode(asked)).value().round, 3u);

  Note refused = call();
  refused.kind = Note::Kind::refused;
  refused.why = Refusal::Why::withdrawn;
  refused.ranks[0] = 2;
  refused.ranks[1] = -1;
  const Note why = decode_note(encode(refused)).value();
  EXPECT_EQ(why.why, Refusal::Why::withdrawn);
  EXPECT_EQ(why.ranks[0], 2);
  EXPECT_EQ(why.ranks[1], -1);

  Note failed = Note::of_failure(Error(ErrorKind::hang, "a rank has stopped", "net.cc:3"), 4);
  failed.op = 2;
  const Note told = decode_note(encode(failed)).value();
  EXPECT_EQ(told.failure().kind, ErrorKind::hang);
  EXPECT_STREQ(told.failure().what(), "a rank has stopped");
  EXPECT_EQ(told.failure().where, "net.cc:3");
  EXPECT_EQ(told.lost, 4);
}

TEST(Notes, WhatALaunchTakesIsOneMessageEach) {
  Note begun = call(), ended;
  begun.inputs.of.fill(1);
  ended.kind = Note::Kind::ended;
  ended.spent.work = 1;
  for (const Note& note : {begun, ended}) EXPECT_EQ(messages_of(encode(note)).size(), 1u);
  EXPECT_EQ(encode(Note()).size(), 24u);
}

TEST(Notes, LongTextsAreCutAndTakeSeveralMessages) {
  Note out = Note::of_failure(Error(ErrorKind::user, std::string(100'000, 'x')), {});
  const auto bytes = encode(out);
  EXPECT_EQ(decode_note(bytes).value().text, std::string(Note::most_text, 'x'));
  EXPECT_EQ(messages_of(bytes).size(), (4 + bytes.size() + 255) / 256);
}

TEST(Notes, BytesThatAreNoNotesAreRefused) {
  const auto good = encode(call());
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(decode_note(std::span(good).first(size))) << size;
  auto more = good;
  more.push_back({});
  EXPECT_FALSE(decode_note(more));
  auto kind = good;
  kind[0] = std::byte{99};
  EXPECT_FALSE(decode_note(kind));
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i) {  // whatever they are, nothing is read behind them, and what is read is a note
    std::vector<std::byte> noise(random() % 100);
    for (std::byte& one : noise) one = static_cast<std::byte>(random());
    if (const auto note = decode_note(noise)) EXPECT_TRUE(decode_note(encode(*note)));
  }
}

}  // namespace
}  // namespace karez::runtime
