// Tests of the texts of errors of World::load and World::save, of the origins of values, and of values that cannot be
// read when their variable is created.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "karez/api/state/weight_names.h"
#include "karez/api/testing/test_checkpoint.h"
#include "karez/api/testing/test_texts.h"
#include "karez/data/weight_files.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Parameter make(const std::string& name, Shape shape, DType dtype = DType::f32) {
  return {name, {dtype, std::move(shape)}, constant_init(0)};
}

TEST_F(Checkpoint, LoadedValuesKeepTheOriginsOfTheirParameters) {
  const Parameter a = make("same", {2}), b = make("same", {2}), alone = make("alone", {1});
  World world;
  world.load(write_file("a", {{"same", {2}, 1}}), {.parameters = {a}});
  world.load(write_file("b", {{"same", {2}, 5}}), {.parameters = {b, b}});
  world.load(write_file("d", {{"alone", {1}, 7}}), {.parameters = {alone}});
  EXPECT_THAT(world.waiting(), ElementsAre("alone", "same", "same"));
  EXPECT_FALSE(world.has(a));
  world.save(path("c"));
  const data::WeightFiles file(path("c"));
  ASSERT_NE(a.origin(), b.origin());
  const auto note = [&](const std::string& name) {
    const auto entry = file.notes().find(name);
    return entry == file.notes().end() ? "none" : entry->second;
  };
  EXPECT_EQ(origin_note("same"), "karez.origin.same");
  EXPECT_EQ(note("karez.origin.same"), a.origin());
  EXPECT_EQ(note("karez.origin.same#1"), b.origin());
  EXPECT_EQ(note("karez.origin.alone"), "none") << "a unique name needs no origin";
  EXPECT_EQ(note("format"), "karez");
  EXPECT_EQ(note("karez.position"), "0");
  // The order of creation in the new world differs from that of the saved values.
  World second;
  auto read = compile(second.mesh(), [&] { return std::pair(b * 1, a * 1); });
  second.load(path("c"));
  const Future values = read();
  EXPECT_THAT(list(values.value(0).read()), ElementsAre(5, 6));
  EXPECT_THAT(list(values.value(1).read()), ElementsAre(1, 2));
}

TEST(WeightNames, ParametersAreOrderedByTheNumbersOfTheirOrigins) {
  const std::vector<std::string> ordered = {"", "#2", "#2.1", "#2.9", "#2.10", "adam.m of #3", "#10", "#10.1", "#11"};
  for (std::size_t i = 0; i < ordered.size(); ++i)
    for (std::size_t j = 0; j < ordered.size(); ++j)
      EXPECT_EQ(created_before(ordered[i], ordered[j]), i < j) << ordered[i] << " and " << ordered[j];
}

TEST(WeightNames, WeightsMatchByOriginOrOrdinalIfTheirNumbersDiffer) {
  const auto offer = [](const std::string& name, std::optional<int> ordinal, const std::string& origin) {
    return OfferedWeight{name, ordinal, origin, {name + "?", "F32", {1}}, {}};
  };
  const std::vector<OfferedWeight> by_ordinal = {offer("w", {}, ""), offer("w", 1, ""), offer("w", 4, "")},
                                   by_origin = {offer("w", {}, "#7"), offer("w", 1, "#3")},
                                   one = {offer("v", 3, ""), offer("w", 2, "")};
  using Wanted = std::vector<WantedWeight>;
  EXPECT_THAT(match_weights(by_ordinal, Wanted{{"w", 4, "#0"}}, "f", false), ElementsAre(2));
  EXPECT_THAT(match_weights(by_ordinal, Wanted{{"w", 1, "#1"}, {"w", 0, "#0"}}, "f", false), ElementsAre(1, 0));
  EXPECT_THAT(match_weights(by_ordinal, Wanted{{"w", 9, ""}, {"w", 7, ""}, {"w", 8, ""}}, "f", true),
              ElementsAre(2, 0, 1));
  EXPECT_THAT(match_weights(by_origin, Wanted{{"w", 0, "#3"}}, "f", false), ElementsAre(1));
  EXPECT_THAT(match_weights(by_origin, Wanted{{"w", 5, "#9"}, {"w", 6, "#8"}}, "f", true), ElementsAre(1, 0));
  EXPECT_THAT(match_weights(one, Wanted{{"w", 0, ""}, {"u", 0, ""}, {"v", 0, ""}}, "f", false), ElementsAre(1, -1, 0));
  const char* two =
      "f: 1 variable is named 'w', but the file has 2 (\"w?\", \"w?\"): the match is ambiguous; give the "
      "variables distinct names with a named root module, or skip unneeded tensors with rules whose name "
      "is empty";
  EXPECT_EQ(error_of([&] { match_weights(by_origin, Wanted{{"w", 0, "#3"}}, "f", true); }), two);
  EXPECT_EQ(error_of([&] { match_weights(by_origin, Wanted{{"w", 0, "#4"}}, "f", false); }), two);
  EXPECT_EQ(error_of([&] {
              match_weights(one, Wanted{{"w", 0, ""}, {"w", 1, ""}}, "f", false);
            }),
            "f: 2 variables are named 'w', but the file has 1 (\"w?\"): the match is ambiguous; give the variables "
            "distinct names with a named root module");
}

TEST_F(Checkpoint, ANumberAfterANameIsItsOrdinal) {
  const data::WeightFiles file(write_file("m", {{"a#2", {1}},
                                                {"a#12345678", {1}},
                                                {"a#123456789", {1}},
                                                {"a#", {1}},
                                                {"a#x1", {1}},
                                                {"b.c", {1}},
                                                {"b.d", {1}}}));
  std::vector<std::string> names;
  for (const OfferedWeight& offer : offered_weights(file, {{"b.*", "*"}}))
    names.push_back(cat(offer.name, " ", offer.ordinal.value_or(-1)));
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("a 2", "a 12345678", "a#123456789 -1", "a# -1", "a#x1 -1", "c -1",
                                                     "d -1"));
}

TEST_F(Checkpoint, ErrorsOfRulesNameTheRuleAndTheTensor) {
  World world;
  const std::string file = write_file("m", {{"w", {4, 2}}, {"v", {6}}});
  const Parameter w = make("w", {4, 2}), v = make("v", {6}), wide = make("w", {2, 3}), half = make("w", {2, 2});
  const auto load = [&](std::vector<WeightRule> rules, std::vector<Parameter> parameters, bool extra = true) {
    return error_of([&] { world.load(file, {.parameters = parameters, .rules = rules, .extra = extra}); });
  };
  const std::vector<std::pair<std::string, std::vector<WeightRule>>> cases = {
      {"rule {\"\", \"x\"} has an empty `file`", {{"", "x"}}},
      {"rule {\"*\", \"x\"} has 1 stars in `file`, but 0 in `name`", {{"*", "x"}}},
      {"rule {\"w\", \"x\"}: part 0 of 0 does not exist; parts are numbered from 0",
       {{.file = "w", .name = "x", .parts = 0}}},
      {"rule {\"w\", \"x\"}: part -1 of 2 does not exist; parts are numbered from 0",
       {{.file = "w", .name = "x", .part = -1, .parts = 2}}},
      {"rule {\"w\", \"x\"}: part 2 of 2 does not exist; parts are numbered from 0",
       {{.file = "w", .name = "x", .part = 2, .parts = 2}}},
      {"tensor \"w\" is divided differently by rules {\"w\", \"x\"} and {\"w\", \"y\"}",
       {{.file = "w", .name = "x", .parts = 2}, {.file = "w", .name = "y", .part = 1, .parts = 4}}},
      {"tensor \"w\" is divided differently by rules {\"w\", \"x\"} and {\"w\", \"y\"}",
       {{.file = "w", .name = "x", .parts = 2}, {.file = "w", .name = "y", .part = 1, .parts = 2, .axis = 1}}},
      {"tensor \"w\": two rules use part 1 of 2; the second one is {\"w\", \"y\"}",
       {{.file = "w", .name = "x", .part = 1, .parts = 2}, {.file = "w", .name = "y", .part = 1, .parts = 2}}},
      {"tensor \"w\" is divided into 2 parts, but rules use only 1; a rule with an empty name skips a part",
       {{.file = "w", .name = "w", .parts = 2}}},
      {"tensors \"v\" and \"w\" are both named 'x' in this program", {{"v", "x"}, {"w", "x"}}},
      {"rule {\"u\", \"x\"} matches no tensor of the file; there are 2: v, w", {{"u", "x"}}},
  };
  for (const auto& [text, rules] : cases) EXPECT_EQ(load(rules, {w, v}), cat(file, ": ", text));
  EXPECT_EQ(load({{.file = "w", .name = "w", .parts = 2}, {.file = "w", .name = "", .part = 1, .parts = 2}}, {half}),
            "no error");
  EXPECT_EQ(load({{.file = "w", .name = "w", .parts = 2}, {.file = "w", .name = "", .part = 1, .parts = 2}}, {wide}),
            cat(file,
                ": tensor \"w\" is F32[4, 2]; parameter 'w' is f32[2, 3], and the part that the rule selects is "
                "[2, 2]"));
  EXPECT_EQ(load({}, {make("w", {2, 4})}),
            cat(file,
                ": tensor \"w\" is F32[4, 2]; parameter 'w' is f32[2, 4]; a rule with .transposed exchanges the "
                "dimensions"));
  EXPECT_EQ(load({}, {make("w", {4, 2}, DType::f64)}),
            cat(file,
                ": tensor \"w\" is F32[4, 2]; parameter 'w' is f64[4, 2]; only lossless conversions are made, "
                "from F16 and BF16 to f32 or f64"));
}

TEST_F(Checkpoint, ErrorsOfNamesListThem) {
  World world;
  std::vector<FileTensor> tensors;
  std::vector<Parameter> parameters;
  for (int i = 0; i < 10; ++i) {
    tensors.push_back({cat("x", i), {1}});
    parameters.push_back(make(cat("m.y", i), {1}));
  }
  const std::string file = write_file("m", tensors);
  const auto load = [&](const LoadOptions& options) { return error_of([&] { world.load(file, options); }); };
  EXPECT_EQ(load({.parameters = parameters, .missing = true}),
            cat(file,
                ": no parameter is named x0, x1, x2, x3, x4, x5, x6, x7 and 2 more. A WeightRule maps names and "
                "skips tensors if its name is empty; {.extra = true} skips all of them"));
  EXPECT_EQ(load({.parameters = {make("x0", {1}), make("y", {1})}}),
            cat(file,
                ": the file has no tensor for y. Among the tensors that no parameter takes, there are 9: x1, x2, "
                "x3, x4, x5, x6, x7, x8, x9. A WeightRule maps names; with {.missing = true} missing parameters "
                "stay unchanged"));
  EXPECT_THAT(load({.parameters = parameters}),
              ::testing::StartsWith(cat(
                  file, ": the file has no tensor for m.y0, m.y1, m.y2, m.y3, m.y4, m.y5, m.y6, m.y7 and 2 more. ")));
  parameters.resize(8);
  EXPECT_THAT(load({.parameters = parameters}),
              ::testing::StartsWith(
                  cat(file, ": the file has no tensor for m.y0, m.y1, m.y2, m.y3, m.y4, m.y5, m.y6, m.y7. Among ")));
  EXPECT_EQ(error_of([&] {
              world.save(path("c"), {.notes = {{"format", "x"}}});
            }),
            "save: a note is named 'format'; 'format' and names that begin with 'karez.' are reserved");
}

TEST_F(Checkpoint, ValuesOfParametersWithTheSameNameAreAmbiguous) {
  const Parameter a = make("same", {2}), b = make("same", {2}), third = make("same", {2});
  World world;
  const std::string one = write_file("one", {{"same", {2}, 1}}), other = write_file("other", {{"same#9", {2}, 1}});
  world.load(one);
  EXPECT_EQ(error_of([&] { compile(world.mesh(), [&] { return a + b; })(); }),
            cat("two new variables are named 'same', but ", one,
                " has only one tensor with this name; give the variables distinct names with a named root module"));
  EXPECT_THAT(list(compile(world.mesh(), [&] { return a * 1; })().value().read()), ElementsAre(1, 2));
  World second;
  second.load(other);
  EXPECT_EQ(error_of([&] { compile(second.mesh(), [&] { return third * 1; })(); }),
            cat("variable 'same' is used for the first time, but ", other,
                " has several tensors with this name, which were made at other places in the program that saved them, "
                "so the match is ambiguous; give the variables distinct names with a named root module"));
}

TEST_F(Checkpoint, VariablesWhoseValuesCannotBeReadAreNotCreated) {
  const Parameter a = make("a", {2}), b = make("b", {2});
  World world;
  const std::string file = write_file("m", {{"a", {2}, 1}, {"b", {2}, 5}});
  std::string bytes;
  {
    std::ifstream in(file, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  world.load(file);
  auto sum_of_both = compile(world.mesh(), [&] { return a + b; });
  std::filesystem::resize_file(file, bytes.size() - 4);
  EXPECT_THAT(error_of([&] { sum_of_both(); }), ::testing::HasSubstr("m: the file ends at byte "));
  EXPECT_THAT(world.variables(), IsEmpty());
  EXPECT_THAT(world.waiting(), ElementsAre("a", "b"));
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_THAT(list(sum_of_both().value().read()), ElementsAre(6, 8));
  EXPECT_THAT(world.waiting(), IsEmpty());
  EXPECT_THAT(world.variables(), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace karez
