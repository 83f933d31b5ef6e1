// Tests of arguments on several ranks: whole arrays, which are compared, and arrays of which each rank gives its own
// part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/ranks/test_ranks.h"
#include "karez/api/test_texts.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::Each;
using ::testing::HasSubstr;

HostArray numbers(Shape shape, int seed) {
  HostArray out(TensorType{DType::f64, std::move(shape)});
  int i = seed;
  for (double& value : out.data<double>()) value = (i++ * 37 % 101) / 50.0 - 1;
  return out;
}

HostArray rows_of(const HostArray& whole, std::int64_t from, std::int64_t to) {
  TensorType type = whole.type();
  const std::int64_t row = type.count() / type.shape[0];
  type.shape[0] = to - from;
  HostArray out(type);
  std::copy_n(whole.data<double>().begin() + from * row, (to - from) * row, out.data<double>().begin());
  return out;
}

struct Net : nn::Module {
  Net() : Module(DType::f64) {}
  nn::Linear fc1{*this, "fc1", 6, 8}, fc2{*this, "fc2", 8, 3};
  Tensor operator()(Tensor x) { return fc2(tanh(fc1(x))); }
};

// The losses of a few steps; `give` makes an argument of a whole array.
std::vector<double> train(WorldOptions options, const char* mesh, std::int64_t batch,
                          const std::function<Argument(const HostArray& whole)>& give, FunctionOptions function = {}) {
  options.seed = 7;
  options.team = 1;
  World world(std::move(options));
  Net net;
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  auto step = compile(
      world.mesh(mesh),
      [&](Tensor x, Tensor y) {
        Tensor error = net(x) - y;
        Tensor loss = mean(error * error);
        adam.step(grad(loss, net.parameters()));
        return loss;
      },
      std::move(function));
  std::vector<double> losses;
  for (int s = 0; s < 4; ++s)
    losses.push_back(step.call({give(numbers({batch, 6}, s)), give(numbers({batch, 3}, s + 9))}).item());
  return losses;
}

std::vector<std::string> errors_by_rank(int ranks, const std::function<void(const Ranks&)>& body) {
  std::vector<std::string> out(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](const Ranks& here) { out[static_cast<std::size_t>(here.rank)] = error_of([&] { body(here); }); });
  return out;
}

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;  // rows by rank

struct PartsCase {
  const char* mesh;
  int each;  // devices per rank
  std::int64_t batch;
  bool says;  // whether `rows` is given
  Ranges ranges;
};

TEST(PartsOfArguments, GiveTheLossesOfWholeArrays) {
  for (const PartsCase& one : std::vector<PartsCase>{{"data=2", 1, 8, false, {{0, 4}, {4, 8}}},
                                                     {"data=2", 1, 5, true, {{0, 3}, {3, 5}}},
                                                     {"data=4", 2, 8, false, {{0, 4}, {4, 8}}},
                                                     {"data=4", 2, 7, true, {{0, 4}, {4, 7}}},
                                                     {"data=2,model=2", 1, 6, true, {{0, 3}, {0, 3}, {3, 6}, {3, 6}}},
                                                     {"data=2,model=2", 1, 8, false, {{0, 2}, {2, 4}, {4, 6}, {6, 8}}},
                                                     {"model=2", 1, 4, true, {{0, 4}, {0, 4}}}}) {
    const std::vector<double> whole = train({}, "", one.batch, [](const HostArray& array) { return Argument(array); });
    const std::vector<double> alone = train({}, "", one.batch, [](const HostArray& array) { return local(array); });
    EXPECT_EQ(alone, whole) << "on one rank the part is the whole";
    on_ranks(static_cast<int>(one.ranges.size()), [&](const Ranks& here) {
      const auto [from, to] = one.ranges[static_cast<std::size_t>(here.rank)];
      auto give = [&, from = from, to = to](const HostArray& array) {
        return local(rows_of(array, from, to), one.says ? one.batch : 0);
      };
      const std::vector<double> losses =
          train({.devices = one.each, .check_inputs = InputCheck::full, .ranks = here}, one.mesh, one.batch, give);
      for (std::size_t s = 0; s < whole.size(); ++s)
        EXPECT_NEAR(losses[s], whole[s], 1e-10 * std::abs(whole[s]))
            << one.mesh << ", batch " << one.batch << ", rank " << here.rank;
    });
  }
}

TEST(PartsOfArguments, PartsOfMicroBatchesGiveTheLossesOfWholeArrays) {
  for (const PartsCase& one :
       std::vector<PartsCase>{{"data=2", 1, 8, false, {{0, 4}, {4, 8}}},
                              {"data=4", 2, 16, true, {{0, 8}, {8, 16}}},
                              {"data=3", 1, 12, false, {{0, 4}, {4, 8}, {8, 12}}},
                              {"data=2,model=2", 1, 8, true, {{0, 4}, {0, 4}, {4, 8}, {4, 8}}},
                              {"data=2,model=2", 1, 16, false, {{0, 4}, {4, 8}, {8, 12}, {12, 16}}},
                              {"model=2", 1, 4, true, {{0, 4}, {0, 4}}}}) {
    const FunctionOptions two{.microbatches = 2};
    const std::vector<double> whole = train({}, "", one.batch, [](const HostArray& array) { return Argument(array); });
    const std::vector<double> alone = train(
        {}, "", one.batch, [](const HostArray& array) { return local(array); }, two);
    for (std::size_t s = 0; s < whole.size(); ++s)
      EXPECT_NEAR(alone[s], whole[s], 1e-10 * std::abs(whole[s])) << one.mesh;
    on_ranks(static_cast<int>(one.ranges.size()), [&](const Ranks& here) {
      const auto [from, to] = one.ranges[static_cast<std::size_t>(here.rank)];
      for (const bool both : {true, false}) {  // false: the targets are whole on every rank
        auto give = [&, from = from, to = to](const HostArray& array) {
          return array.shape()[1] == 6 || both ? local(rows_of(array, from, to), one.says ? one.batch : 0)
                                               : Argument(array);
        };
        const auto losses = train({.devices = one.each, .check_inputs = InputCheck::full, .ranks = here}, one.mesh,
                                  one.batch, give, two);
        for (std::size_t s = 0; s < whole.size(); ++s)
          EXPECT_NEAR(losses[s], whole[s], 1e-10 * std::abs(whole[s]))
              << one.mesh << ", batch " << one.batch << ", rank " << here.rank;
      }
    });
  }
}

// A net of two stages, each on an axis `data`; ranks are numbered along the last axis of the mesh.
TEST(PartsOfArguments, PartsOfStagesAreReadOnTheirPlacement) {
  const auto staged = [](const DeviceMesh&) { return FunctionOptions{.placements = {{"fc1", 0}, {"fc2", 1}}}; };
  struct Case {
    const char* mesh;
    int ranks, each;
    std::int64_t batch;
    Ranges ranges;
  };
  for (const Case& one : std::vector<Case>{{"stage=2,data=2", 4, 1, 8, {{0, 4}, {4, 8}, {0, 4}, {4, 8}}},
                                           {"data=2,stage=2", 2, 2, 8, {{0, 4}, {4, 8}}},
                                           {"stage=2,data=2", 2, 2, 8, {{0, 8}, {0, 8}}},
                                           {"stage=2", 2, 1, 8, {{0, 8}, {0, 8}}}})
    for (const int microbatches : {1, 2}) {
      const std::vector<double> whole =
          train({}, "", one.batch, [](const HostArray& array) { return Argument(array); });
      on_ranks(one.ranks, [&](const Ranks& here) {
        FunctionOptions options = staged({});
        options.microbatches = microbatches;
        const auto [from, to] = one.ranges[static_cast<std::size_t>(here.rank)];
        auto give = [from = from, to = to](const HostArray& array) { return local(rows_of(array, from, to)); };
        const auto losses = train({.devices = one.each, .check_inputs = InputCheck::full, .ranks = here}, one.mesh,
                                  one.batch, give, options);
        for (std::size_t s = 0; s < whole.size(); ++s)
          EXPECT_NEAR(losses[s], whole[s], 1e-10 * std::abs(whole[s]))
              << one.mesh << ", rank " << here.rank << ", " << microbatches;
      });
    }
}

TEST(PartsOfArguments, PartsOfMicroBatchesKeepTheOrderOfRows) {
  on_ranks(2, [](const Ranks& here) {
    World world({.ranks = here});
    const HostArray x = numbers({12, 5}, 1), y = numbers({12, 5}, 2), w = numbers({12, 5}, 3);
    const Array there = compile(world.mesh("d=2"), [](Tensor z) { return z * 1.0; })(w).value();
    for (const bool split : {false, true}) {
      auto f = compile(world.mesh("d=2"),
                       [&](Tensor x, Tensor y, Tensor w) {
                         // The arguments are parts, a whole host array and an array on the mesh.
                         const Tensor rows = x * 3.0 + y + w;
                         const Tensor columns = transpose(rows, {1, 0}), count = sum(x);
                         const Tensor rest = rows / count;  // a sum over the batch that micro-batches wait for
                         return std::vector<Tensor>{
                             with_layout(rows, split ? std::vector<std::string>{"d", ""} : std::vector<std::string>{}),
                             columns, rest};
                       },
                       {.microbatches = 3});
      const auto out = f(local(rows_of(x, 6 * here.rank, 6 * here.rank + 6)), y, there);
      const HostArray rows = out.value(0).read(), columns = out.value(1).read(), rest = out.value(2).read();
      double total = 0;
      for (double v : x.data<double>()) total += v;
      for (std::size_t i = 0; i < 60; ++i) {
        const double expected = x.data<double>()[i] * 3 + y.data<double>()[i] + w.data<double>()[i];
        EXPECT_DOUBLE_EQ(rows.data<double>()[i], expected) << i;
        EXPECT_DOUBLE_EQ(columns.data<double>()[i % 5 * 12 + i / 5], expected) << i;
        EXPECT_NEAR(rest.data<double>()[i], expected / total, 1e-9 * std::abs(expected / total)) << i;
      }
    }
  });
}

TEST(PartsOfArguments, InvalidPartsOfMicroBatchesAreErrors) {
  for (const std::string& text : errors_by_rank(2, [](const Ranks& here) {
         train({.ranks = here}, "data=2", 6, [&](const HostArray& array) { return local(rows_of(array, 0, 3)); },
               {.microbatches = 2});
       }))
    EXPECT_THAT(text, HasSubstr("arg0, parts by local(), is f64[6, 6] on 2 devices in microbatches=2: each device must "
                                "have equally many rows of each micro-batch, so 4 must divide 6"));
  for (const std::string& text : errors_by_rank(3, [](const Ranks& here) {
         World world({.ranks = here});
         const DeviceMesh two = world.mesh("data=2", {.devices = {0, 1}}),
                          other = world.mesh("data=2", {.devices = {1, 2}});
         Net net;
         auto f = compile(two, [&](Tensor x) { return sum(net(x)); }, {.placements = {{"fc1", two}, {"fc2", other}}});
         f(local(HostArray(TensorType{DType::f64, {2, 6}}))).wait();
       }))
    EXPECT_THAT(text, ::testing::AnyOf(
                          HasSubstr("which are placements of the function with devices of this rank; give the whole"),
                          HasSubstr("rank 1: it ends its world")));
}

TEST(PartsOfArguments, PartsOfAWrongSizeAreRefusedWithThePossibleSizes) {
  const auto texts = errors_by_rank(2, [](const Ranks& here) {
    train({.ranks = here}, "data=2", 5, [](const HostArray& array) { return local(rows_of(array, 0, 4), 6); });
  });
  for (std::size_t rank = 0; rank < 2; ++rank)
    EXPECT_THAT(texts[rank],
                HasSubstr(base::cat("a part by local(), is f64[4, 6] of a whole of 6 rows; rank ", rank,
                                    " holds f64[6, 6] if the whole is f64[6, 6;], f64[3, 6] if the whole is "
                                    "f64[6@data, 6]; give the number of rows of the whole by local(array, ROWS)")));
  EXPECT_THAT(
      error_of([] { train({}, "", 4, [](const HostArray&) { return local(HostArray::of<double>({}, {1})); }); }),
      HasSubstr("is f64[]; an argument in parts must have 1 to 16 dimensions"));
  EXPECT_EQ(error_of([] { local(HostArray()); }), "local() of an uninitialised array");
}

TEST(PartsOfArguments, PartsOfDifferentGlobalArraysGiveDifferentPrograms) {
  const auto texts = errors_by_rank(2, [](const Ranks& here) {
    train({.ranks = here}, "data=2", 4,
          [&](const HostArray& array) { return local(rows_of(array, 0, here.rank == 0 ? 2 : 1)); });
  });
  EXPECT_THAT(texts, Each(HasSubstr("the ranks do not run the same program")));
}

// The error of each rank in calls in which `spoil` changes the second argument of rank 1 in call `bad`.
std::vector<std::string> told_of_arguments(InputCheck check, int calls, int bad, Shape shape,
                                           const std::function<void(HostArray&)>& spoil) {
  return errors_by_rank(3, [&](const Ranks& here) {
    World world({.check_inputs = check, .ranks = here});
    auto f = compile(world.mesh("d=3"), [](Tensor x, Tensor y, Tensor z) { return sum(x * y) + z; }, {.name = "step"});
    for (int i = 0; i < calls; ++i) {
      HostArray y = numbers(shape, i);
      if (i == bad && here.rank == 1) spoil(y);
      f(numbers(shape, i), y, 1.0).wait();
    }
    world.barrier();
  });
}

void spoil_all(HostArray& array) {
  for (double& x : array.data<double>()) x += 50;
}
void spoil_one(HostArray& array) { array.data<double>()[5] = 50; }

TEST(InputsOfRanks, DifferencesInAnEarlyCallAreReportedBeforeItBegins) {
  const std::string expected =
      "a call of function 'step' \\(local_test.cc:[0-9]+\\), number 3: ranks (0 and 1|1 and 2) pass different "
      "arguments\n"
      "rank [01]: arg1: f64\\[6000\\] with the hash [0-9]+\nrank [12]: arg1: f64\\[6000\\] with the hash [0-9]+\n"
      "an array is the whole on every rank, unless local\\(array\\) marks it as this rank's part";
  for (InputCheck check : {InputCheck::sampled, InputCheck::full})
    EXPECT_THAT(told_of_arguments(check, 3, 2, {6000}, spoil_one), Each(::testing::MatchesRegex(expected)));
  EXPECT_THAT(told_of_arguments(InputCheck::off, 3, 2, {6000}, spoil_one), Each("no error"));
}

TEST(InputsOfRanks, DifferencesInALaterCallAreReportedWithoutAWait) {
  const std::string expected =
      "a call of function 'step' \\(local_test.cc:[0-9]+\\): ranks (0 and 1|1 and 2|0 and 2) pass different arguments: "
      "arg1; an array is the whole on every rank, unless local\\(array\\) marks it as this rank's part";
  for (const Shape& shape : {Shape{6}, Shape{100'000}})
    for (const std::string& text : told_of_arguments(InputCheck::sampled, 9, 6, shape, spoil_all))
      EXPECT_THAT(text, ::testing::ContainsRegex(expected));
  EXPECT_THAT(told_of_arguments(InputCheck::sampled, 9, 6, {6}, spoil_one),
              Each(HasSubstr("different arguments: arg1")))
      << "all of a small array is compared";
  EXPECT_THAT(told_of_arguments(InputCheck::full, 9, 6, {100'000}, spoil_one), Each(HasSubstr(", number 7: ranks ")));
}

TEST(InputsOfRanks, EachDrawSamplesOtherLinesOfALargeArray) {
  const HostArray same = numbers({100'000}, 0);
  HostArray other = numbers({100'000}, 0);
  other.data<double>()[77'777] += 1;
  const std::vector<Argument> first{Argument(same)}, second{Argument(other)};
  int found = 0;
  std::set<std::uint32_t> hashes;
  for (std::uint64_t draw = 0; draw < 2000; ++draw) {
    const runtime::InputHashes a = sampled_hashes({first, {}}, draw), b = sampled_hashes({second, {}}, draw);
    EXPECT_EQ(a, sampled_hashes({first, {}}, draw)) << "equal on every rank";
    hashes.insert(a.values[0]);
    found += a != b;
  }
  EXPECT_GT(hashes.size(), 1990u);
  EXPECT_GT(found, 2) << "one element in 12,500 cache lines, of which a draw samples 64: found in one draw of 195";
  EXPECT_LT(found, 40);
}

TEST(InputsOfRanks, MoreThanCanBeDistinguishedAreStillCompared) {
  const auto texts = errors_by_rank(2, [](const Ranks& here) {
    World world({.ranks = here});
    const Body body = [](std::span<const Tensor> all) {
      Tensor total = sum(all[0]);
      for (const Tensor& one : all.subspan(1)) total = total + sum(one);
      return std::vector<Tensor>{total};
    };
    const Function f(world.mesh("d=2"), -1, body, {}, SourceLine::current());
    for (int i = 0; i < 6; ++i) {
      std::vector<Argument> all;
      for (int k = 0; k < 40; ++k) all.emplace_back(numbers({4}, here.rank == 1 && i == 4 && k == 33 ? 9 : k));
      f.call(std::move(all)).wait();
    }
    world.barrier();
  });
  EXPECT_THAT(
      texts,
      Each(HasSubstr("different arguments: arg15 or a later one, or a number that the program sets between calls")));
}

TEST(InputsOfRanks, AnEnvironmentVariableSetsTheCheck) {
  setenv("KAREZ_CHECK_INPUTS", "off", 1);
  EXPECT_THAT(told_of_arguments(InputCheck::sampled, 3, 2, {6}, spoil_one), Each("no error"));
  setenv("KAREZ_CHECK_INPUTS", "often", 1);
  EXPECT_EQ(error_of([] { World world; }), "KAREZ_CHECK_INPUTS=often; it must be off, sampled or full");
  unsetenv("KAREZ_CHECK_INPUTS");
}

TEST(InputsOfRanks, MustBeCheckedEquallyOnAllRanks) {
  EXPECT_THAT(errors_by_rank(2,
                             [](const Ranks& here) {
                               World world({.check_inputs = here.rank == 1 ? InputCheck::full : InputCheck::sampled,
                                            .ranks = here});
                             }),
              Each("rank 1's World differs from rank 0's: 'check_inputs = full' against 'check_inputs = sampled'"));
}

}  // namespace
}  // namespace karez
