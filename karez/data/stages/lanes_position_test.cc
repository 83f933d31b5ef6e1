// Positions that are saved with one number of lanes and restored with another, at every element.
#include <gtest/gtest.h>

#include <functional>

#include "karez/data/stages/test_random_datasets.h"
#include "karez/data/stages/test_schedule.h"

namespace karez::data {
namespace {

using Make = std::function<Dataset(const Dataset&)>;

// map with this many lanes, which makes an index of the stages before it.
Dataset mapped(const Dataset& dataset, int lanes) {
  return dataset.map([](const Element& e) { return e; }, {lanes, true});
}

Numbers rest(Schedule& schedule, StreamStateRef* state = nullptr, std::size_t count = 1'000'000) {
  Numbers out;
  while (out.size() < count) {
    std::optional<Element> element = schedule.next();
    if (!element) break;
    out.push_back(number_of(*element));
    if (state != nullptr) *state = element->state;
  }
  return out;
}

std::string error_of(const Dataset& dataset, const StreamStateRef& state) {
  Schedule schedule(dataset, 1);
  schedule.start({0, state});
  try {
    rest(schedule);
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

Dataset first_of_pair(const Dataset& pairs) {
  return pairs.map([](const Element& e) { return element(array_of(e, 0)); });
}

TEST(LanesPosition, EveryPositionCanBeRestoredWithOtherLanes) {
  const auto all = [](const Dataset& d) { return d; };
  const std::vector<std::pair<const char*, Make>> stages = {
      {"nothing", all},
      {"take", [](const Dataset& d) { return d.take(5); }},
      {"skip", [](const Dataset& d) { return d.skip(3); }},
      {"shard", [](const Dataset& d) { return d.shard(3, 1); }},
      {"skip and shard", [](const Dataset& d) { return d.skip(2).shard(2, 1); }},
      {"take of nothing", [](const Dataset& d) { return d.take(0); }},
      {"repeat", [](const Dataset& d) { return d.repeat(3); }},
      {"repeat of a part", [](const Dataset& d) { return d.take(3).repeat(4); }},
      {"repeat of nothing", [](const Dataset& d) { return d.take(0).repeat(2); }},
      {"endless repeat", [](const Dataset& d) { return d.repeat().take(25); }},
      {"concat",
       [](const Dataset& d) {
         return concat({range(3), d, d.take(0), d.skip(6), range(2)});
       }},
      {"zip",
       [](const Dataset& d) {
         return first_of_pair(zip({d, range(100).skip(50)}));
       }},
      {"zip of a shorter one",
       [](const Dataset& d) {
         return first_of_pair(zip({d.repeat(2), range(11)}));
       }},
      {"all",
       [](const Dataset& d) {
         return concat({d.shard(2, 0).repeat(2), d}).repeat(2).skip(4).take(30);
       }},
      {"filter", [](const Dataset& d) { return d.repeat(2).filter([](const Element&) { return true; }); }},
      {"shuffle after", [](const Dataset& d) { return d.repeat(2).shuffle({}); }},
      {"shuffle before", [](const Dataset& d) { return d.shuffle({}).repeat(2).skip(1); }},
      {"lanes after", [](const Dataset& d) { return mapped(d.skip(2).repeat(2), 3); }},
      {"batch", [](const Dataset& d) { return d.repeat(2).batch(3).unbatch(); }},
  };
  for (const auto& [name, make] : stages)
    for (int before : {1, 2})
      for (int after : {1, 2, 3}) {
        const Dataset saved = make(mapped(range(8), before)), restored = make(mapped(range(8), after));
        const Numbers expected = read_all(saved, 1);
        for (std::size_t n = 0; n <= expected.size(); ++n) {
          SCOPED_TRACE(cat(name, ", lanes ", before, " and ", after, ", after ", n, " elements"));
          StreamStateRef state;
          Schedule first(saved, 1), second(restored, 2);
          first.start({1});
          ASSERT_EQ(rest(first, &state, n), Numbers(expected.begin(), expected.begin() + static_cast<long>(n)));
          second.start({1, parse_stream_state(print(state))});
          StreamStateRef later = state;
          Numbers numbers = rest(second, &later, 2);
          second.start({1, later});
          for (std::int64_t number : rest(second)) numbers.push_back(number);
          ASSERT_EQ(numbers, Numbers(expected.begin() + static_cast<long>(n), expected.end())) << print(state);
        }
      }
}

TEST(LanesPosition, StatesOfOtherPipelinesAreErrors) {
  const Dataset plain = range(8), lanes = mapped(plain, 2);
  EXPECT_EQ(error_of(plain.batch(2).take(3), stream_state({2})),
            "the state of stage take, skip or shard must have 1 numbers and 1 inputs, got 1 and 0; it was saved by "
            "another pipeline");
  EXPECT_EQ(error_of(plain.repeat(2), stream_state({1, 2})),
            "the state of stage repeat(2) must have 1 numbers and 1 inputs, got 2 and 0; it was saved by another "
            "pipeline");
  EXPECT_EQ(error_of(zip({plain, plain}), stream_state({}, {nullptr})),
            "the state of stage zip must have 0 numbers and 2 inputs, got 0 and 1; it was saved by another pipeline");
  EXPECT_EQ(error_of(concat({plain, plain}), stream_state({2}, {nullptr})),
            "the state of stage concat names input 2 of 2");
  EXPECT_EQ(error_of(concat({plain, plain}), stream_state({-1}, {nullptr})),
            "the state of stage concat names input -1 of 2");
  EXPECT_EQ(error_of(plain.repeat(2), stream_state({-1}, {stream_state({3})})),
            "the state of stage repeat(2) is element 3 of pass -1");
  EXPECT_EQ(error_of(plain.repeat(), stream_state({std::int64_t{1} << 61}, {nullptr})),
            "the state of stage repeat is element 0 of pass 2305843009213693952");
  for (const char* stage : {"take, skip or shard", "repeat", "concat", "zip"}) {
    const Dataset d = stage[0] == 't'   ? lanes.take(3)
                      : stage[0] == 'r' ? lanes.repeat(2)
                      : stage[0] == 'c' ? concat({lanes, plain})
                                        : zip({lanes, plain});
    EXPECT_EQ(error_of(d, stream_state({-2})), cat("the state of stage ", stage, " is element -2"));
  }
  EXPECT_EQ(error_of(lanes.repeat(2), stream_state({17})),
            "the state of stage repeat is in pass 2, but its count is 2");
}

}  // namespace
}  // namespace karez::data
