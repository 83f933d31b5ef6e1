// Tests of the states of streams: texts and states that are valid, and errors of those that are damaged.
#include "karez/data/stages/stream_state.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/error.h"
#include "karez/base/philox.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/sequential_reader.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

bool are_equal(const StreamStateRef& a, const StreamStateRef& b) {
  if (!a || !b) return a == b;
  if (a->numbers != b->numbers || a->text != b->text || a->inputs.size() != b->inputs.size()) return false;
  for (std::size_t i = 0; i < a->inputs.size(); ++i)
    if (!are_equal(a->inputs[i], b->inputs[i])) return false;
  return true;
}

// The text of the error of the kind `data` that a function throws.
std::string data_error(auto&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::data) << error.what();
    return error.what();
  }
  return "no error";
}
std::string error_of_text(std::string_view text) {
  return data_error([&] { parse_stream_state(text); });
}

constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

std::vector<StreamStateRef> states() {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  const StreamStateRef number = stream_state({12});
  return {nullptr,
          stream_state({}),
          stream_state({0, -1, smallest, largest}),
          stream_state({}, {nullptr}),
          stream_state({-3}, {nullptr, nullptr}),
          stream_state({}, {}, "a \"text\"\nwith \\ and\ttabs # (-"),
          stream_state({1}, {nullptr, number}, every_byte),
          stream_state({3, 7}, {number, nullptr, stream_state({}, {number, stream_state({}, {}, "x)")}, "\\")}, "\"")};
}

TEST(StreamState, TheTextListsNumbersTextAndInputs) {
  EXPECT_EQ(print(nullptr), "-");
  EXPECT_EQ(print(stream_state({})), "()");
  EXPECT_EQ(print(stream_state({3, 7}, {stream_state({12}), nullptr}, "text")), "(3 7 \"text\" (12) -)");
  EXPECT_EQ(print(stream_state({}, {nullptr, stream_state({-1})})), "(- (-1))");
  EXPECT_EQ(print(stream_state({}, {}, "\"\n")), "(\"\\\"\\n\")");
}

TEST(StreamState, ATextIsParsedToTheSameState) {
  for (const StreamStateRef& state : states()) {
    const StreamStateRef parsed = parse_stream_state(print(state));
    EXPECT_TRUE(are_equal(parsed, state)) << print(state);
    EXPECT_EQ(print(parsed), print(state));
  }
}

TEST(StreamState, WhiteSpaceBetweenTheItemsDoesNotMatter) {
  EXPECT_EQ(print(parse_stream_state(" (\t3 7\n\"text\"(12)-  ) ")), "(3 7 \"text\" (12) -)");
  EXPECT_EQ(print(parse_stream_state(" - ")), "-");
}

TEST(StreamState, OtherTextsAreErrors) {
  const std::string where = "the state of a stream: line 1, column ";
  EXPECT_EQ(error_of_text(""), where + "1: expected '(' at the end");
  EXPECT_EQ(error_of_text("3"), where + "1: expected '(' at '3'");
  EXPECT_EQ(error_of_text("(3"), where + "3: expected '(' at the end");
  EXPECT_EQ(error_of_text("(3))"), where + "4: expected the end of the text at ')'");
  EXPECT_EQ(error_of_text("(3)-"), where + "4: expected the end of the text at '-'");
  EXPECT_EQ(error_of_text("--"), where + "2: expected the end of the text at '-'");
  EXPECT_EQ(error_of_text("((3) 4)"), where + "6: expected '(' at '4)'") << "numbers come before the inputs";
  EXPECT_EQ(error_of_text("(\"a\" \"b\")"), where + "6: expected '(' at '\"b\")'") << "a state has one text";
  EXPECT_EQ(error_of_text("(\"a"), where + "4: a quoted string is not closed at the end");
  EXPECT_EQ(error_of_text("(\"a\\\")"), where + "7: a quoted string is not closed at the end");
  EXPECT_EQ(error_of_text("(9223372036854775808)"), where + "2: expected an integer at '9223372036854775808)'");
  EXPECT_EQ(error_of_text("(1.5)"), where + "3: expected an integer at '.5)'");
  EXPECT_EQ(error_of_text("(inf)"), where + "2: expected an integer at 'inf)'");
  EXPECT_EQ(error_of_text("(- 5)"), where + "4: expected '(' at '5)'");
  EXPECT_EQ(error_of_text("(\n x)"), "the state of a stream: line 2, column 2: expected '(' at 'x)'");
}

TEST(StreamState, EveryBeginningOfATextIsAnError) {
  for (const StreamStateRef& state : states()) {
    const std::string text = print(state);
    for (std::size_t length = 0; length < text.size(); ++length)
      EXPECT_NE(error_of_text(std::string_view(text).substr(0, length)), "no error") << text << ", " << length;
  }
}

TEST(StreamState, ADamagedTextIsAnErrorOrAnotherState) {
  const std::vector<StreamStateRef> all = states();
  const std::string bytes = "()-\"\\ 0179#\n";
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    std::uint64_t draws = 0;
    const auto draw = [&](std::size_t limit) { return philox_word(seed, 0, draws++) % limit; };
    std::string text = print(all[draw(all.size())]);
    for (std::size_t changes = 1 + draw(3); changes > 0; --changes) {
      const std::size_t at = draw(text.size() + 1);
      if (draw(2) == 0) text.insert(at, 1, bytes[draw(bytes.size())]);
      else if (at < text.size()) text.erase(at, 1 + draw(4));
    }
    if (error_of_text(text) != "no error") continue;
    const StreamStateRef parsed = parse_stream_state(text);
    EXPECT_TRUE(are_equal(parse_stream_state(print(parsed)), parsed)) << "seed " << seed << ": " << text;
  }
}

TEST(StreamState, StatesAreNestedAtMost1000Times) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '(') + std::string(depth, ')'); };
  EXPECT_EQ(error_of_text(nested(1001)), "no error");
  EXPECT_EQ(error_of_text(nested(1002)).substr(0, 89),
            "the state of a stream: line 1, column 1002: a state must be nested at most 1000 times at ");
  EXPECT_NE(error_of_text(nested(1'000'000)), "no error");
  EXPECT_NE(error_of_text(std::string(1'000'000, '(')), "no error");
}

// The elements 0 .. 29, which cannot be read by index.
Dataset stream() {
  return from_generator([](std::int64_t) {
    return Generator{[next = std::int64_t{0}]() mutable -> std::optional<Element> {
      if (next == 30) return std::nullopt;
      return element(HostArray::of<std::int64_t>({}, {next++}));
    }};
  });
}

// The error of a stream that starts from a state.
std::string state_error(const Dataset& dataset, const StreamStateRef& state) {
  return data_error([&] {
    SequentialReader reader(dataset);
    reader.start({0, state});
    for (int i = 0; i < 1000 && reader.next(); ++i) continue;
  });
}

TEST(StreamState, ADamagedStateIsAnError) {
  const Dataset s = stream();
  const auto zero = [](const Element&) { return std::int64_t{0}; };
  const auto inner = [](const Element&) { return range(3); };
  const std::string damaged = " is damaged", other = ", or was saved by another pipeline";
  EXPECT_EQ(state_error(range(5), stream_state({})),
            "the state of stage range(0, 5, 1) must have 1 numbers and 0 inputs, got 0 and 0; it was saved by another "
            "pipeline");
  for (std::int64_t n : {-1, 6})
    EXPECT_EQ(state_error(range(5), stream_state({n})),
              cat("the state of stage range(0, 5, 1) is element ", n, ", but it has 5 elements"));
  EXPECT_EQ(state_error(range(5), stream_state({5})), "no error");
  EXPECT_EQ(state_error(s, stream_state({3, 4})), "the state of stage generator" + damaged);
  EXPECT_EQ(state_error(s, stream_state({4, 3})), "the state of stage generator" + damaged);
  EXPECT_EQ(state_error(s, stream_state({31, 31})),
            "generator: the generator ended before the element at which the stream was saved");
  EXPECT_NE(state_error(s, stream_state({3, 3}, {}, "x")).find("but this generator has none"), std::string::npos);
  EXPECT_EQ(state_error(s.take(3), stream_state({-1}, {nullptr})),
            "the state of stage take, skip or shard is negative");
  for (std::int64_t n : {-1, 2})
    EXPECT_EQ(state_error(s.repeat(2), stream_state({n}, {nullptr})),
              cat("the state of stage repeat is in pass ", n, ", but its count is 2"));
  EXPECT_EQ(state_error(concat({s, s}), stream_state({2}, {nullptr})), "the state of stage concat names input 2 of 2");
  EXPECT_EQ(state_error(s.cache(), stream_state({-1})), "the state of stage cache is negative");
  EXPECT_EQ(state_error(s.batch(2).unbatch(), stream_state({-1}, {nullptr})), "the state of stage unbatch is negative");
  for (const auto& numbers : {Numbers{1, 5, 0, 0}, {1, 3, 0, 0}, {1, 5, 0, 1}, {-1, 2, 0, 0}, {2, 5, 6, 0}})
    EXPECT_EQ(state_error(s.shuffle({.buffer = 4}), stream_state(numbers, {nullptr})),
              "the state of stage shuffle is damaged, or was saved with another buffer than 4");
  for (const auto& numbers : {Numbers{4, 5, 0}, {4, 0}, {4, -1, 0}, {9, 0, 0, 0, 1, 2}})
    EXPECT_EQ(state_error(s.bucket_by_length(zero, {}, {3}, LastBatch::pad), stream_state(numbers, {nullptr})),
              cat("the state of stage bucket_by_length", damaged, other));
  for (const auto& numbers : {Numbers{1, 0, 1, 0, 1, 0, 0}, {0, 0, 1, 0, 1, 0, 1}, {0, 1, 1, 0, 1, 0, 0}})
    EXPECT_EQ(state_error(s.flat_map(inner), stream_state(numbers, {nullptr, nullptr})),
              "the state of stage interleave" + damaged);
}

std::vector<Dataset> pipelines() {
  const Dataset s = stream(), t = range(30);
  const auto inner = [](const Element& e) { return range(number_of(e) % 3); };
  const auto zero = [](const Element&) { return std::int64_t{0}; };
  std::vector<Dataset> out = {s, t, concat({s, t}), zip({s, t}), s.interleave(inner, {.cycle = 3})};
  out.insert(out.end(), {s.take(9), s.repeat(2), s.batch(4).repeat(), s.cache(), s.window(4, 2), s.batch(4).unbatch()});
  out.insert(out.end(), {s.shuffle({.buffer = 4}), s.shuffle({.buffer = 40}), t.shuffle(), s.flat_map(inner)});
  out.push_back(s.bucket_by_length(zero, {}, {3}, LastBatch::pad));
  out.push_back(s.shuffle({.buffer = 7}).repeat(2));
  return out;
}
StreamStateRef state_after(const Dataset& dataset, int elements) {
  SequentialReader reader(dataset);
  reader.start();
  StreamStateRef state;
  for (int i = 0; i < elements; ++i) state = reader.next()->state;
  return state;
}

TEST(StreamState, TheStateOfAnotherPipelineIsAnError) {
  int errors = 0;
  for (const Dataset& from : pipelines()) {
    const StreamStateRef state = state_after(from, 5);
    for (const Dataset& to : pipelines()) errors += state_error(to, state) != "no error";
    EXPECT_EQ(state_error(from, state), "no error") << from.text();
  }
  EXPECT_GT(errors, 200) << "of 272; some pipelines have states of the same form";
}

// The state with some other numbers and without some inputs.
StreamStateRef damaged(const StreamState& state, const std::function<std::int64_t(std::int64_t limit)>& draw) {
  auto out = std::make_shared<StreamState>(state);
  for (std::int64_t& number : out->numbers)
    if (draw(3) == 0) number = draw(40) - 3;
  for (StreamStateRef& input : out->inputs)
    if (input) input = draw(5) == 0 ? nullptr : damaged(*input, draw);
  return out;
}

TEST(StreamState, DamagedNumbersAreAnErrorOrAnotherState) {
  for (const Dataset& dataset : pipelines())
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      SCOPED_TRACE(cat("seed ", seed, "\n", dataset.text()));
      std::uint64_t draws = 0;
      const auto draw = [&](std::int64_t limit) {
        return static_cast<std::int64_t>(philox_word(seed, 1, draws++)) % limit;
      };
      state_error(dataset, damaged(*state_after(dataset, 1 + static_cast<int>(draw(6))), draw));
    }
}

}  // namespace
}  // namespace karez::data
