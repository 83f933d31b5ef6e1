// Tests of arguments on several ranks: global arrays, which are compared, and arrays of which each rank passes a part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "karez/api/ranks/rank_agreement.h"
#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_texts.h"
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

HostArray rows_of(const HostArray& array, std::int64_t first_row, std::int64_t end_row) {
  TensorType type = array.type();
  const std::int64_t row = type.count() / type.shape[0];
  type.shape[0] = end_row - first_row;
  HostArray out(type);
  std::copy_n(array.data<double>().begin() + first_row * row, (end_row - first_row) * row, out.data<double>().begin());
  return out;
}

struct Net : nn::Module {
  Net() : Module(DType::f64) {}
  nn::Linear fc1{*this, "fc1", 6, 8}, fc2{*this, "fc2", 8, 3};
  Tensor operator()(Tensor x) { return fc2(tanh(fc1(x))); }
};

// Returns the losses of a few steps. `make_argument` makes an argument from a global array.
std::vector<double> train(WorldOptions options, const char* mesh, std::int64_t batch,
                          const std::function<Argument(const HostArray& array)>& make_argument,
                          FunctionOptions function = {}) {
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
    losses.push_back(
        step.call({make_argument(numbers({batch, 6}, s)), make_argument(numbers({batch, 3}, s + 9))}).item());
  return losses;
}

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;  // rows by rank

struct PartsCase {
  const char* mesh;
  int devices;  // per rank
  std::int64_t batch;
  bool passes_rows;  // whether local() gets the number of rows
  Ranges ranges;
};

TEST(PartsOfArguments, PartsGiveTheLossesOfGlobalArrays) {
  for (const PartsCase& test_case :
       std::vector<PartsCase>{{"data=2", 1, 8, false, {{0, 4}, {4, 8}}},
                              {"data=2", 1, 5, true, {{0, 3}, {3, 5}}},
                              {"data=4", 2, 8, false, {{0, 4}, {4, 8}}},
                              {"data=4", 2, 7, true, {{0, 4}, {4, 7}}},
                              {"data=2,model=2", 1, 6, true, {{0, 3}, {0, 3}, {3, 6}, {3, 6}}},
                              {"data=2,model=2", 1, 8, false, {{0, 2}, {2, 4}, {4, 6}, {6, 8}}},
                              {"model=2", 1, 4, true, {{0, 4}, {0, 4}}}}) {
    const std::vector<double> expected_losses =
        train({}, "", test_case.batch, [](const HostArray& array) { return Argument(array); });
    const std::vector<double> single_rank =
        train({}, "", test_case.batch, [](const HostArray& array) { return local(array); });
    EXPECT_EQ(single_rank, expected_losses) << "on one rank, the part must be the global array";
    on_ranks(static_cast<int>(test_case.ranges.size()), [&](const Ranks& job) {
      const auto [first_row, end_row] = test_case.ranges[static_cast<std::size_t>(job.rank)];
      auto make_argument = [&, first_row = first_row, end_row = end_row](const HostArray& array) {
        return local(rows_of(array, first_row, end_row), test_case.passes_rows ? test_case.batch : 0);
      };
      const std::vector<double> losses =
          train({.devices = test_case.devices, .check_inputs = InputCheck::full, .ranks = job}, test_case.mesh,
                test_case.batch, make_argument);
      for (std::size_t s = 0; s < expected_losses.size(); ++s)
        EXPECT_NEAR(losses[s], expected_losses[s], 1e-10 * std::abs(expected_losses[s]))
            << test_case.mesh << ", batch " << test_case.batch << ", rank " << job.rank;
    });
  }
}

TEST(PartsOfArguments, PartsWithMicroBatchesGiveTheLossesOfGlobalArrays) {
  for (const PartsCase& test_case :
       std::vector<PartsCase>{{"data=2", 1, 8, false, {{0, 4}, {4, 8}}},
                              {"data=4", 2, 16, true, {{0, 8}, {8, 16}}},
                              {"data=3", 1, 12, false, {{0, 4}, {4, 8}, {8, 12}}},
                              {"data=2,model=2", 1, 8, true, {{0, 4}, {0, 4}, {4, 8}, {4, 8}}},
                              {"data=2,model=2", 1, 16, false, {{0, 4}, {4, 8}, {8, 12}, {12, 16}}},
                              {"model=2", 1, 4, true, {{0, 4}, {0, 4}}}}) {
    const FunctionOptions two_microbatches{.microbatches = 2};
    const std::vector<double> expected_losses =
        train({}, "", test_case.batch, [](const HostArray& array) { return Argument(array); });
    const std::vector<double> single_rank = train(
        {}, "", test_case.batch, [](const HostArray& array) { return local(array); }, two_microbatches);
    for (std::size_t s = 0; s < expected_losses.size(); ++s)
      EXPECT_NEAR(single_rank[s], expected_losses[s], 1e-10 * std::abs(expected_losses[s])) << test_case.mesh;
    on_ranks(static_cast<int>(test_case.ranges.size()), [&](const Ranks& job) {
      const auto [first_row, end_row] = test_case.ranges[static_cast<std::size_t>(job.rank)];
      for (const bool splits_targets : {true, false}) {  // if false, every rank passes the global targets
        auto make_argument = [&, first_row = first_row, end_row = end_row](const HostArray& array) {
          return array.shape()[1] == 6 || splits_targets
                     ? local(rows_of(array, first_row, end_row), test_case.passes_rows ? test_case.batch : 0)
                     : Argument(array);
        };
        const auto losses = train({.devices = test_case.devices, .check_inputs = InputCheck::full, .ranks = job},
                                  test_case.mesh, test_case.batch, make_argument, two_microbatches);
        for (std::size_t s = 0; s < expected_losses.size(); ++s)
          EXPECT_NEAR(losses[s], expected_losses[s], 1e-10 * std::abs(expected_losses[s]))
              << test_case.mesh << ", batch " << test_case.batch << ", rank " << job.rank;
      }
    });
  }
}

// The net has two stages, and the mesh of a stage may have an axis `data`. The last axis of the mesh varies fastest
// over the devices, and each rank has consecutive devices.
TEST(PartsOfArguments, WithStagesPartsAreReadOnTheirPlacement) {
  const auto staged = [](const DeviceMesh&) { return FunctionOptions{.placements = {{"fc1", 0}, {"fc2", 1}}}; };
  struct Case {
    const char* mesh;
    int ranks, devices;
    std::int64_t batch;
    Ranges ranges;
  };
  for (const Case& test_case : std::vector<Case>{{"stage=2,data=2", 4, 1, 8, {{0, 4}, {4, 8}, {0, 4}, {4, 8}}},
                                                 {"data=2,stage=2", 2, 2, 8, {{0, 4}, {4, 8}}},
                                                 {"stage=2,data=2", 2, 2, 8, {{0, 8}, {0, 8}}},
                                                 {"stage=2", 2, 1, 8, {{0, 8}, {0, 8}}}})
    for (const int microbatches : {1, 2}) {
      const std::vector<double> expected_losses =
          train({}, "", test_case.batch, [](const HostArray& array) { return Argument(array); });
      on_ranks(test_case.ranks, [&](const Ranks& job) {
        FunctionOptions options = staged({});
        options.microbatches = microbatches;
        const auto [first_row, end_row] = test_case.ranges[static_cast<std::size_t>(job.rank)];
        auto make_argument = [first_row = first_row, end_row = end_row](const HostArray& array) {
          return local(rows_of(array, first_row, end_row));
        };
        const auto losses = train({.devices = test_case.devices, .check_inputs = InputCheck::full, .ranks = job},
                                  test_case.mesh, test_case.batch, make_argument, options);
        for (std::size_t s = 0; s < expected_losses.size(); ++s)
          EXPECT_NEAR(losses[s], expected_losses[s], 1e-10 * std::abs(expected_losses[s]))
              << test_case.mesh << ", rank " << job.rank << ", " << microbatches;
      });
    }
}

TEST(PartsOfArguments, PartsWithMicroBatchesKeepTheOrderOfRows) {
  on_ranks(2, [](const Ranks& job) {
    World world({.ranks = job});
    const HostArray x = numbers({12, 5}, 1), y = numbers({12, 5}, 2), w = numbers({12, 5}, 3);
    const Array on_mesh = compile(world.mesh("d=2"), [](Tensor z) { return z * 1.0; })(w).value();
    for (const bool split : {false, true}) {
      auto f = compile(world.mesh("d=2"),
                       [&](Tensor x, Tensor y, Tensor w) {
                         // The arguments are a part, a global host array and an array on the mesh.
                         const Tensor rows = x * 3.0 + y + w;
                         const Tensor columns = transpose(rows, {1, 0}), count = sum(x);
                         const Tensor scaled = rows / count;  // micro-batches wait for the sum over the batch
                         return std::vector<Tensor>{
                             with_layout(rows, split ? std::vector<std::string>{"d", ""} : std::vector<std::string>{}),
                             columns, scaled};
                       },
                       {.microbatches = 3});
      const auto out = f(local(rows_of(x, 6 * job.rank, 6 * job.rank + 6)), y, on_mesh);
      const HostArray rows = out.value(0).read(), columns = out.value(1).read(), scaled = out.value(2).read();
      double total = 0;
      for (double v : x.data<double>()) total += v;
      for (std::size_t i = 0; i < 60; ++i) {
        const double expected = x.data<double>()[i] * 3 + y.data<double>()[i] + w.data<double>()[i];
        EXPECT_DOUBLE_EQ(rows.data<double>()[i], expected) << i;
        EXPECT_DOUBLE_EQ(columns.data<double>()[i % 5 * 12 + i / 5], expected) << i;
        EXPECT_NEAR(scaled.data<double>()[i], expected / total, 1e-9 * std::abs(expected / total)) << i;
      }
    }
  });
}

TEST(PartsOfArguments, PartsThatCannotBeDividedIntoMicroBatchesOrAreAmbiguousAreErrors) {
  for (const std::string& text : errors_by_rank(2, [](const Ranks& job) {
         train({.ranks = job}, "data=2", 6, [&](const HostArray& array) { return local(rows_of(array, 0, 3)); },
               {.microbatches = 2});
       }))
    EXPECT_THAT(text, HasSubstr("arg0, a part passed by local(), is f64[6, 6] on 2 devices with microbatches=2: each "
                                "device must have the same number of rows of each micro-batch, so 4 must divide 6"));
  for (const std::string& text : errors_by_rank(3, [](const Ranks& job) {
         World world({.ranks = job});
         const DeviceMesh first_pair = world.mesh("data=2", {.devices = {0, 1}}),
                          second_pair = world.mesh("data=2", {.devices = {1, 2}});
         Net net;
         auto f = compile(first_pair, [&](Tensor x) { return sum(net(x)); },
                          {.placements = {{"fc1", first_pair}, {"fc2", second_pair}}});
         f(local(HostArray(TensorType{DType::f64, {2, 6}}))).wait();
       }))
    EXPECT_THAT(text,
                ::testing::AnyOf(HasSubstr("is ambiguous: it would be rows 2 to 3 of 4 on mesh(data=2), but rows 0 "
                                           "to 1 of 4 on mesh(data=2); pass the global array"),
                                 HasSubstr("rank 1: it ends its world")));
}

TEST(PartsOfArguments, PartsOfTheWrongSizeAreErrorsThatListThePossibleSizes) {
  const auto texts = errors_by_rank(2, [](const Ranks& job) {
    train({.ranks = job}, "data=2", 5, [](const HostArray& array) { return local(rows_of(array, 0, 4), 6); });
  });
  for (std::size_t rank = 0; rank < 2; ++rank)
    EXPECT_THAT(texts[rank], HasSubstr(base::cat(
                                 "a part passed by local(), is f64[4, 6] of a global array of 6 rows, but rank ", rank,
                                 " holds f64[6, 6] if the global array is f64[6, 6;], f64[3, 6] if the global array is "
                                 "f64[6@data, 6]; pass the number of rows of the global array: local(array, ROWS)")));
  EXPECT_THAT(
      error_of([] { train({}, "", 4, [](const HostArray&) { return local(HostArray::of<double>({}, {1})); }); }),
      HasSubstr("must have 1 to 16 dimensions, got f64[]"));
  EXPECT_EQ(error_of([] { local(HostArray()); }), "local: the array is uninitialised");
}

TEST(PartsOfArguments, PartsOfGlobalArraysOfDifferentSizesAreRejected) {
  const auto texts = errors_by_rank(2, [](const Ranks& job) {
    train({.ranks = job}, "data=2", 4,
          [&](const HostArray& array) { return local(rows_of(array, 0, job.rank == 0 ? 2 : 1)); });
  });
  EXPECT_THAT(texts, Each(HasSubstr("the ranks do not run the same program")));
}

// Returns the error of each of three ranks. `change` alters the second argument of rank 1 in call `changed_call`.
std::vector<std::string> argument_errors(InputCheck check, int calls, int changed_call, Shape shape,
                                         const std::function<void(HostArray&)>& change) {
  return errors_by_rank(3, [&](const Ranks& job) {
    World world({.check_inputs = check, .ranks = job});
    auto f = compile(world.mesh("d=3"), [](Tensor x, Tensor y, Tensor z) { return sum(x * y) + z; }, {.name = "step"});
    for (int i = 0; i < calls; ++i) {
      HostArray y = numbers(shape, i);
      if (i == changed_call && job.rank == 1) change(y);
      f(numbers(shape, i), y, 1.0).wait();
    }
    world.barrier();
  });
}

void change_all(HostArray& array) {
  for (double& x : array.data<double>()) x += 50;
}
void change_one(HostArray& array) { array.data<double>()[5] = 50; }

TEST(InputsOfRanks, DifferencesInOneOfTheFirstCallsAreReportedBeforeTheCallBegins) {
  const std::string expected =
      "a call of function 'step' \\(local_part_test.cc:[0-9]+\\), call number 3: ranks (0 and 1|1 and 2) pass "
      "different "
      "arguments\n"
      "rank [01]: arg1: f64\\[6000\\] with the hash [0-9]+\nrank [12]: arg1: f64\\[6000\\] with the hash [0-9]+\n"
      "an array must be complete on every rank, unless local\\(array\\) marks it as this rank's part";
  for (InputCheck check : {InputCheck::sampled, InputCheck::full})
    EXPECT_THAT(argument_errors(check, 3, 2, {6000}, change_one), Each(::testing::MatchesRegex(expected)));
  EXPECT_THAT(argument_errors(InputCheck::off, 3, 2, {6000}, change_one), Each("no error"));
}

TEST(InputsOfRanks, DifferencesInALaterCallAreReportedAlthoughTheCallDoesNotWaitForTheCheck) {
  const std::string expected =
      "a call of function 'step' \\(local_part_test.cc:[0-9]+\\): ranks (0 and 1|1 and 2|0 and 2) pass different "
      "arguments: "
      "arg1; an array must be complete on every rank, unless local\\(array\\) marks it as this rank's part";
  for (const Shape& shape : {Shape{6}, Shape{100'000}})
    for (const std::string& text : argument_errors(InputCheck::sampled, 9, 6, shape, change_all))
      EXPECT_THAT(text, ::testing::ContainsRegex(expected));
  EXPECT_THAT(argument_errors(InputCheck::sampled, 9, 6, {6}, change_one), Each(HasSubstr("different arguments: arg1")))
      << "every element of a small array must be compared";
  EXPECT_THAT(argument_errors(InputCheck::full, 9, 6, {100'000}, change_one),
              Each(HasSubstr(", call number 7: ranks ")));
}

TEST(InputsOfRanks, EachDrawSamplesDifferentLinesOfALargeArray) {
  const HostArray array = numbers({100'000}, 0);
  HostArray changed = numbers({100'000}, 0);
  changed.data<double>()[77'777] += 1;
  const std::vector<Argument> first{Argument(array)}, second{Argument(changed)};
  int detected = 0;
  std::set<std::uint32_t> hashes;
  for (std::uint64_t draw = 0; draw < 2000; ++draw) {
    const runtime::InputHashes a = sampled_hashes({first, {}}, draw), b = sampled_hashes({second, {}}, draw);
    EXPECT_EQ(a, sampled_hashes({first, {}}, draw)) << "hashes must depend only on the array and the draw";
    hashes.insert(a.values[0]);
    detected += a != b;
  }
  EXPECT_GT(hashes.size(), 1990u);
  EXPECT_GT(detected, 2) << "a draw samples 64 of 12,500 cache lines, so about one draw in 195 must find the element";
  EXPECT_LT(detected, 40);
}

TEST(InputsOfRanks, ArgumentsAfterThe15thAreStillCompared) {
  const auto texts = errors_by_rank(2, [](const Ranks& job) {
    World world({.ranks = job});
    const Body body = [](std::span<const Tensor> arguments) {
      Tensor total = sum(arguments[0]);
      for (const Tensor& tensor : arguments.subspan(1)) total = total + sum(tensor);
      return std::vector<Tensor>{total};
    };
    const Function f(world.mesh("d=2"), -1, body, {}, SourceLine::current());
    for (int i = 0; i < 6; ++i) {
      std::vector<Argument> arguments;
      for (int k = 0; k < 40; ++k) arguments.emplace_back(numbers({4}, job.rank == 1 && i == 4 && k == 33 ? 9 : k));
      f.call(std::move(arguments)).wait();
    }
    world.barrier();
  });
  EXPECT_THAT(
      texts,
      Each(HasSubstr("different arguments: arg15 or a later one, or a number that the program sets between calls")));
}

TEST(InputsOfRanks, AnEnvironmentVariableSetsTheInputCheck) {
  setenv("KAREZ_CHECK_INPUTS", "off", 1);
  EXPECT_THAT(argument_errors(InputCheck::sampled, 3, 2, {6}, change_one), Each("no error"));
  setenv("KAREZ_CHECK_INPUTS", "often", 1);
  EXPECT_EQ(error_of([] { World world; }), "KAREZ_CHECK_INPUTS must be off, sampled or full, got 'often'");
  unsetenv("KAREZ_CHECK_INPUTS");
}

TEST(InputsOfRanks, AllRanksMustUseTheSameInputCheck) {
  EXPECT_THAT(errors_by_rank(2,
                             [](const Ranks& job) {
                               World world({.check_inputs = job.rank == 1 ? InputCheck::full : InputCheck::sampled,
                                            .ranks = job});
                             }),
              Each("rank 1's World differs from rank 0's: 'check_inputs = full' against 'check_inputs = sampled'"));
}

}  // namespace
}  // namespace karez
