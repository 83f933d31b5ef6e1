// Tests of the table of a data set's actors.
#include "karez/data/stages/stage_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/data/dataset.h"
#include "karez/data/stages/sequential_reader.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

using testing::HasSubstr;
using testing::Not;

Element same(const Element& e) { return e; }
bool any(const Element&) { return true; }

TEST(Explain, WithoutAReaderTheTableListsActorsAndPositions) {
  const Dataset numbers = range(100).map(same, {.name = "read"}).filter(any, {3}).shuffle({.buffer = 10}).batch(4);
  EXPECT_EQ(numbers.explain(),
            "actor  lanes  slots  position  stages\n"
            "    0      1      4     index  range(0, 100, 1), map(read) (by index)\n"
            "    1      3      6         -  filter(parallel=3)\n"
            "    2      1      2    replay  shuffle(buffer=10, seed=1), batch(4, last=keep)\n");
  EXPECT_THAT(numbers.repeat(2).prefetch(7).take(5).explain(), HasSubstr("numbers  take(5)\n"));
  EXPECT_EQ(range(9).map(same, {2}).explain(),
            "actor  lanes  slots  position  stages\n"
            "    0      1      3         -  map(parallel=2): indices\n"
            "    1      2      4     index  range(0, 9, 1), map(parallel=2) (by index)\n");
}

TEST(Explain, TheLanesAndThePlaceOfAFunctionInOtherProcessesAreSaid) {
  int calls = 0;
  const Dataset numbers =
      range(9).map(same, {.parallel = 2, .name = "f", .lanes = 4, .place = [&] { return cat("in place ", ++calls); }});
  EXPECT_EQ(numbers.text(), "map(f, parallel=2)\nrange(0, 9, 1)\n");
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(numbers.explain(),
            "actor  lanes  slots  position  stages\n"
            "    0      1      5         -  map(f, parallel=2): indices\n"
            "    1      4      8     index  range(0, 9, 1), map(f, parallel=2) in place 1 (by index)\n");
  EXPECT_THAT(numbers.filter(any, {.lanes = 3}).explain(), HasSubstr("    2      3      6         -  filter\n"));
  for (int lanes : {-1, 2049}) EXPECT_THROW(range(9).map(same, {.lanes = lanes}), Error);
}

TEST(Explain, LimitsAndALackOfPositionsAreSaid) {
  const std::string text =
      range(9).map(same, {2}).with_options({.deterministic = false, .bytes = 100, .cpu = 3}).explain();
  EXPECT_THAT(text, Not(HasSubstr("  index  ")));
  EXPECT_THAT(text,
              testing::EndsWith("no positions: elements are passed on as soon as they are ready (deterministic=False)\n"
                                "bytes of elements: at most 100\n"
                                "acts at the same time: at most 3\n"));
}

TEST(Explain, AReportFillsTheOtherColumns) {
  const Dataset dataset = range(100).filter(any, {2}).with_options({.bytes = 64});
  StreamReport report{
      .stages =
          {StageReport{
               .filled = 1, .acts = 50, .elements = 40, .act_seconds = 0.002, .cpu = 0.5, .seconds = {100, 1, 0, 2, 5}},
           StageReport{.filled = 2, .cpu = 0.494}},
      .bytes = 24};
  EXPECT_EQ(
      explain(stage_tree(dataset.node()), &report),
      "actor  lanes  slots  acts  elements     time  per element  acting  no input  no free slot   bound by  position  "
      "stages\n"
      "    0      1    1/3    50        40  0.002 s     50.00 us    12 %      25 %          62 %  CPU, 50 %     index  "
      "range(0, 100, 1) (by index)\n"
      "    1      2    2/4     0         0  0.000 s            -       -         -             -   IO, 49 %         -  "
      "filter(parallel=2)\n"
      "bytes of elements: 24, at most 64\n");
}

// The text of the column `position` of the last actor, after `read` elements.
std::string position_after(const Dataset& dataset, std::int64_t read) {
  SequentialReader reader(dataset);
  reader.start();
  StreamReport report;
  for (; read > 0; --read) report.state = reader.next().value().state;
  const StageTree tree = stage_tree(dataset.node());
  report.stages.resize(tree.graph.stages.size());
  std::string text = explain(tree, &report);
  text.pop_back();
  const std::size_t end = text.rfind("  ");
  const std::size_t begin = text.rfind("  ", end - 1);
  return text.substr(begin + 2, end - begin - 2);
}

Dataset counted(bool has_state) {
  return from_generator([has_state](std::int64_t) {
    auto next = std::make_shared<std::int64_t>(0);
    Generator generator{[next] { return element(HostArray::of<std::int64_t>({}, {(*next)++})); }};
    if (has_state) {
      generator.state = [next] { return cat(*next); };
      generator.restore = [next](const std::string& text) { *next = std::stoll(text); };
    }
    return generator;
  });
}

TEST(Explain, APositionSaysHowManyElementsAreReadAgain) {
  const Dataset stream = range(1000).filter(any);
  EXPECT_EQ(position_after(range(1000), 5), "index");
  EXPECT_EQ(position_after(stream, 5), "index") << "filter passes on the state of its input";
  EXPECT_EQ(position_after(stream.take(7), 5), "index");
  EXPECT_EQ(position_after(stream.prefetch(2).take(7), 5), "numbers");
  EXPECT_EQ(position_after(stream.prefetch(2).window(5, 2), 0), "replay of 0 elements");
  EXPECT_EQ(position_after(stream.prefetch(2).window(5, 2), 3), "replay of 3 elements");
  EXPECT_EQ(position_after(stream.batch(4).prefetch(2).unbatch(), 5), "replay of 1 element");
  EXPECT_EQ(position_after(stream.batch(4).prefetch(2).unbatch(), 4), "replay of 0 elements");
  EXPECT_EQ(position_after(stream.batch(100).shuffle({.buffer = 1}), 3), "index, replay of 0 elements");
  EXPECT_EQ(position_after(counted(false), 37), "replay of 37 elements");
  EXPECT_EQ(position_after(counted(true), 0), "generator state, replay of 0 elements");
  EXPECT_EQ(position_after(counted(true), 37), "generator state, replay of 5 elements");
  EXPECT_EQ(position_after(concat({stream.prefetch(3), counted(true)}), 9), "generator state or replay of 0 elements");
  EXPECT_EQ(position_after(concat({stream.take(4), counted(false)}), 9), "index, replay of 5 elements");
  EXPECT_EQ(position_after(zip({counted(false), stream}).repeat(), 9), "replay of 9 elements, index");
  EXPECT_THAT(counted(true).explain(), HasSubstr("  generator state or replay  "));
  const Dataset same_generator = counted(true);
  position_after(same_generator, 1);
  EXPECT_THAT(same_generator.explain(), HasSubstr("  generator state  "));
}

TEST(Explain, TheStateOfAnotherDataSetIsNoFault) {
  for (const char* text : {"()", "(1)", "(1 2 3 ())", "-"})
    for (const Dataset& dataset :
         {range(9).filter(any).shuffle({.buffer = 2}), concat({counted(true), counted(false)}), counted(true).unbatch(),
          range(9).filter(any).interleave([](const Element&) { return range(3); })}) {
      const StageTree tree = stage_tree(dataset.node());
      StreamReport report{.stages = std::vector<StageReport>(tree.graph.stages.size()),
                          .state = parse_stream_state(text)};
      EXPECT_THAT(explain(tree, &report), HasSubstr("position")) << text;
    }
}

}  // namespace
}  // namespace karez::data
