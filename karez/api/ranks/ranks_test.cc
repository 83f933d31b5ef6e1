// Tests of worlds of several ranks, each of which is a thread. In tests/processes_test.cc each rank is a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_texts.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Net : nn::Module {
  Net() : Module(DType::f64) {}
  nn::Linear fc1{*this, "fc1", 6, 8}, fc2{*this, "fc2", 8, 3};
  nn::Dropout drop{*this, "drop", 0.2};
  Tensor operator()(Tensor x) { return fc2(drop(tanh(fc1(x)))); }
};

HostArray numbers(Shape shape, int seed) {
  HostArray out(TensorType{DType::f64, std::move(shape)});
  int i = seed;
  for (double& value : out.data<double>()) value = (i++ * 37 % 101) / 50.0 - 1;
  return out;
}

struct Trained {
  std::vector<double> losses, weight;
  bool operator==(const Trained&) const = default;
};

// Trains for a few steps. Every rank reads all losses and the weight.
Trained train(WorldOptions options, const char* mesh, const std::vector<LayoutRule>& rules = {}, int steps = 4) {
  options.seed = 7;
  options.team = 1;
  World world(std::move(options));
  Net net;
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  auto step = compile(world.mesh(mesh),
                      [&](Tensor x, Tensor y) {
                        Tensor error = net(x) - y;
                        Tensor loss = mean(error * error);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.rules = rules});
  Trained out;
  for (int s = 0; s < steps; ++s) out.losses.push_back(step(numbers({5, 6}, s), numbers({5, 3}, s + 9)).item());
  out.weight = list<double>(world.read("fc1.weight"));
  return out;
}

const std::vector<LayoutRule> split = {
    {"fc1.weight", P("model", nullptr)}, {"fc1.bias", P("model")}, {"fc2.weight", P(nullptr, "model")}};

void expect_near(const Trained& a, const Trained& b, const std::string& label) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    EXPECT_NEAR(a.losses[i], b.losses[i], 1e-10 * std::abs(b.losses[i])) << label;
  ASSERT_EQ(a.weight.size(), b.weight.size());
  for (std::size_t i = 0; i < a.weight.size(); ++i) EXPECT_NEAR(a.weight[i], b.weight[i], 1e-10) << label;
}

TEST(RanksInOneProcess, AllRanksGetTheResultsOfTrainingInASingleProcess) {
  const Trained single_process = train({}, "");
  for (const auto& [mesh, rules, ranks] :
       std::vector<std::tuple<const char*, std::vector<LayoutRule>, int>>{{"data=4", {}, 4},
                                                                          {"model=4", split, 4},
                                                                          {"data=2,model=2", split, 4},
                                                                          {"data=2,model=2", split, 2},
                                                                          {"data=4", {}, 2}}) {
    const int devices = 4 / ranks;
    std::vector<Trained> results(static_cast<std::size_t>(ranks));
    on_ranks(ranks, [&, mesh = mesh, &rules = rules](const Ranks& job) {
      results[static_cast<std::size_t>(job.rank)] = train({.devices = devices, .ranks = job}, mesh, rules);
    });
    const Trained expected = train({.devices = 4}, mesh, rules);
    expect_near(results[0], single_process, cat(mesh, " on ", ranks, " ranks"));
    for (const Trained& result : results)
      EXPECT_EQ(result, expected) << mesh
                                  << ": results must be bit for bit those of one process with the same number of "
                                     "devices";
  }
}

TEST(RanksInOneProcess, TwoWorldsOfFourRanksRunConcurrently) {
  const Trained single_process = train({}, "");
  std::vector<Trained> results(8);
  auto group = [&](std::size_t first) {
    on_ranks(4, [&, first](const Ranks& job) {
      results[first + static_cast<std::size_t>(job.rank)] = train({.ranks = job}, "data=4");
    });
  };
  std::thread second_group([&] { group(4); });
  group(0);
  second_group.join();
  for (const Trained& result : results) expect_near(result, single_process, "data=4");
}

TEST(RanksInOneProcess, TheSecondWorldOfARankJoinsTheSecondWorldsOfTheOthers) {
  on_ranks(2, [](const Ranks& job) {
    World first({.seed = 1, .ranks = job}), second({.devices = 2, .seed = 2, .ranks = job});
    EXPECT_EQ(first.mesh("d=2").mesh.devices[1], (sbp::DeviceName{1, 0}));
    EXPECT_EQ(second.mesh("d=4").mesh.devices[3], (sbp::DeviceName{1, 1}));
    for (World* world : {&second, &first}) {
      auto twice = compile(world->mesh("d=2"), [](Tensor x) { return sum(x * 2.0); });
      EXPECT_EQ(twice(numbers({4}, 1)).item(), 2 * (37 + 74 + 10 + 47) / 50.0 - 8) << job.rank;
    }
    EXPECT_EQ(first.rank(), job.rank);
    EXPECT_EQ(first.ranks(), 2);
  });
}

TEST(RanksInOneProcess, ABarrierWaitsForAllRanks) {
  std::atomic<int> arrived{0};
  on_ranks(3, [&](const Ranks& job) {
    World world({.ranks = job});
    for (int round = 1; round <= 5; ++round) {
      ++arrived;
      world.barrier();
      EXPECT_EQ(arrived, 3 * round);
      world.barrier();
    }
  });
}

TEST(RanksInOneProcess, EachRankReadsItsRowsOfEveryMicroBatch) {
  on_ranks(2, [](const Ranks& job) {
    World world({.team = 1, .ranks = job});
    auto twice = compile(world.mesh("data=2"),
                         [](Tensor x) {
                           Tensor part = with_layout(x, {"data"});
                           return with_layout(part + part, {"data"});
                         },
                         {.microbatches = 3});
    const HostArray x = numbers({15, 2}, 3),
                    y = twice(x).value(0).read();  // five rows per micro-batch: three on rank 0, two on rank 1
    for (std::size_t i = 0; i < 30; ++i)
      EXPECT_EQ(y.data<double>()[i], 2 * x.data<double>()[i]) << "rank " << job.rank << ", element " << i;
    EXPECT_THAT(twice.plan_text(), HasSubstr(job.rank == 0 ? "bound r0 f64[3, 2]" : "bound r0 f64[2, 2]"))
        << "each rank must read only its rows";
  });
}

TEST(RanksInOneProcess, AllRanksReadASplitArrayAndEachReadsItsPart) {
  on_ranks(2, [](const Ranks& job) {
    World world({.ranks = job});
    auto f = compile(world.mesh("d=2"), [](Tensor x) {
      return std::pair{with_layout(x * 2.0, {"d"}), with_layout(x + 1.0, {})};
    });
    Future outputs = f(HostArray::of<double>({3}, {1, 2, 3}));
    Array split_array = outputs.value(0), replicated = outputs.value(1);
    ASSERT_EQ(split_array.local().size(), 1u);
    EXPECT_EQ(list<double>(split_array.local()[0]),
              job.rank == 0 ? (std::vector<double>{2, 4}) : (std::vector<double>{6}));
    EXPECT_THAT(list<double>(replicated.local()[0]), ElementsAre(2, 3, 4));
    if (job.rank == 1) {
      EXPECT_THAT(list<double>(replicated.read()), ElementsAre(2, 3, 4))
          << "if every rank holds the complete array, a single rank can read it";
    }
    for (int repeat = 0; repeat < 2; ++repeat)
      EXPECT_THAT(list<double>(split_array.read()), ElementsAre(2, 4, 6)) << job.rank;
    auto g = compile(world.mesh("d=2"), [](Tensor x) { return sum(x); });
    EXPECT_EQ(g(split_array).item(), 12) << "each rank must pass its part of the array to the call";
  });
}

TEST(RanksInOneProcess, AVariableIsCreatedWrittenAndReadAsInOneProcess) {
  Parameter single_w("w", {DType::f64, {5, 3}}, uniform_init(1));
  World single({.seed = 3});
  compile(single.mesh(), [&](Tensor x) { return x * single_w; })(numbers({5, 3}, 0)).wait();
  const auto initial = list<double>(single.read("w"));
  on_ranks(2, [&](const Ranks& job) {
    World world({.seed = 3, .ranks = job});
    Parameter w("w", {DType::f64, {5, 3}}, uniform_init(1));
    auto f = compile(world.mesh("d=2"), [&](Tensor x) { return sum(x * w); }, {.rules = {{"w", P("d", nullptr)}}});
    f(numbers({5, 3}, 0)).wait();
    EXPECT_EQ(list<double>(world.read("w")), initial) << "initial values must be bit for bit those of one process";
    world.write(w, numbers({5, 3}, 4));
    EXPECT_EQ(list<double>(world.read(w)), list<double>(numbers({5, 3}, 4)));
    double expected = 0;
    for (std::size_t i = 0; i < 15; ++i)
      expected += numbers({5, 3}, 0).data<double>()[i] * numbers({5, 3}, 4).data<double>()[i];
    EXPECT_NEAR(f(numbers({5, 3}, 0)).item(), expected, 1e-12);
    world.reset();
    f(numbers({5, 3}, 0)).wait();
    EXPECT_EQ(list<double>(world.read("w")), initial) << "after a reset, initial values must be the same again";
  });
}

// The mesh contains only ranks 1 and 2; ranks 0 and 3 call the function too.
TEST(RanksInOneProcess, AProgramOnSomeRanksCanBeCalledAndItsResultReadOnAllRanks) {
  on_ranks(4, [](const Ranks& job) {
    World world({.ranks = job});
    Parameter w("w", {DType::f64, {4}}, constant_init(2));
    auto f = compile(world.mesh("d=2", {.first = 1}), [&](Tensor x) { return x * w; });
    Array y = f(HostArray::of<double>({4}, {1, 2, 3, 4})).value();
    EXPECT_EQ(y.local().size(), job.rank == 1 || job.rank == 2 ? 1u : 0u);
    EXPECT_THAT(list<double>(y.read()), ElementsAre(2, 4, 6, 8)) << job.rank;
    EXPECT_THAT(list<double>(world.read("w")), ElementsAre(2, 2, 2, 2)) << job.rank;
    auto g = compile(world.mesh("d=4"), [](Tensor x) { return sum(x); });
    EXPECT_EQ(g(y).item(), 20) << "the array must be transferred to all ranks";
  });
}

TEST(RanksInOneProcess, ASourceReadsOnlyThisRanksRows) {
  struct Rows : Source {
    mutable std::mutex mutex;
    mutable std::vector<std::pair<std::int64_t, std::int64_t>> read_rows;
    TensorType type() const override { return {DType::f64, {6, 2}}; }
    void read(std::int64_t position, std::span<const std::int64_t> begin, const tensor::TensorRef& out) const override {
      std::lock_guard lock(mutex);
      read_rows.emplace_back(begin[0], out.view->shape[0]);
      for (std::int64_t i = 0; i < out.view->count(); ++i) out.as<double>()[i] = static_cast<double>(position);
    }
  };
  on_ranks(3, [](const Ranks& job) {
    World world({.ranks = job});
    auto rows = std::make_shared<Rows>();
    auto f = compile(world.mesh("d=3"), [](Tensor x) { return sum(with_layout(x, {"d"})); });
    EXPECT_EQ(f(Feed{rows, 5}).item(), 60);
    EXPECT_EQ(rows->read_rows, (std::vector<std::pair<std::int64_t, std::int64_t>>{{2 * job.rank, 2}}));
  });
}

TEST(RanksInOneProcess, TrainingResumesFromACheckpointOnAnotherMesh) {
  const std::string path = ::testing::TempDir() + "karez-ranks-checkpoint.safetensors";
  auto run = [&](WorldOptions options, const char* mesh, const std::vector<LayoutRule>& rules, bool loads, int first,
                 int steps, bool saves) {
    options.team = 1;
    World world(std::move(options));
    Net net;
    optim::Adam adam(net.parameters(), {.lr = 1e-2});
    auto step = compile(world.mesh(mesh),
                        [&](Tensor x) {
                          Tensor loss = mean(net(x) * net(x));
                          adam.step(grad(loss, net.parameters()));
                          return loss;
                        },
                        {.rules = rules});
    if (loads) world.load(path);
    std::vector<double> losses;
    for (int s = first; s < first + steps; ++s) losses.push_back(step(numbers({5, 6}, s)).item());
    if (saves) world.save(path);
    return losses;
  };
  const std::vector<double> reference = run({}, "", {}, false, 0, 6, false);
  on_ranks(4, [&](const Ranks& job) { run({.ranks = job}, "data=2,model=2", split, false, 0, 3, true); });
  for (const auto& losses : {run({}, "", {}, true, 3, 3, true)})
    for (std::size_t s = 0; s < 3; ++s)
      EXPECT_NEAR(losses[s], reference[3 + s], 1e-10) << "losses differ after resuming on one device from four ranks";
  run({}, "", {}, false, 0, 3, true);
  on_ranks(4, [&](const Ranks& job) {
    const auto losses = run({.ranks = job}, "model=4", split, true, 3, 3, false);
    for (std::size_t s = 0; s < 3; ++s)
      EXPECT_NEAR(losses[s], reference[3 + s], 1e-10) << "losses differ after resuming on four ranks from one device";
  });
}

TEST(RanksInOneProcess, WorldsWithDifferentOptionsAreRejectedOnEveryRank) {
  std::vector<std::string> errors(3);
  on_ranks(3, [&](const Ranks& job) {
    errors[static_cast<std::size_t>(job.rank)] =
        error_of([&] { World world({.devices = job.rank == 2 ? 2 : 1, .ranks = job}); });
  });
  for (const std::string& text : errors)
    EXPECT_EQ(text, "rank 2's World differs from rank 0's: 'devices = 2' against 'devices = 1'");
  auto error_for = [](Ranks ranks) { return error_of([&] { World world({.ranks = ranks}); }); };
  EXPECT_THAT(error_for({.rank = 2, .ranks = 2, .store = "@x"}),
              HasSubstr("Ranks: rank must be at least 0 and below ranks; got rank 2 and ranks 2"));
  EXPECT_THAT(error_for({.rank = 1, .ranks = 2}), HasSubstr("has no rendezvous address"));
  EXPECT_THAT(error_of([] { on_ranks(2, [](const Ranks& job) { World({.ranks = job}).mesh("d=3"); }); }),
              HasSubstr("mesh(d=3) takes 3 devices, but the world has 2, 1 on each rank"));
}

TEST(RanksInOneProcess, ExpressionsOutsideOfFunctionsAreReadOnEveryRank) {
  auto compute = [](WorldOptions options) {
    options.team = 1;
    World world(std::move(options));
    Interactive scope(world.mesh("data=4"));
    std::vector<std::vector<double>> out;
    Tensor x = with_layout(numbers({8, 3}, 1), P("data", nullptr));
    const Tensor weights = with_layout(numbers({3, 2}, 5), P(nullptr, nullptr));
    for (int i = 0; i < 70; ++i) x = tanh(x * 1.5 + i * 0.01);
    out.push_back(list<double>(with_layout(x, P("data", nullptr)).read()));  // split: gathered by a launch
    out.push_back(list<double>(matmul(x, weights).read()));
    out.push_back(
        list<double>(value_and_grad([&](Tensor v) { return sum(exp(matmul(v, weights))); })(x).gradients[0].read()));
    return out;
  };
  const auto expected = compute({.devices = 4});
  on_ranks(2, [&](const Ranks& job) { EXPECT_EQ(compute({.devices = 2, .ranks = job}), expected); });
}

TEST(RanksInOneProcess, ADifferentExpressionOnOneRankIsReported) {
  std::mutex mutex;
  std::vector<std::string> errors;
  on_ranks(2, [&](const Ranks& job) {
    World world({.ranks = job, .peer_timeout = 5});
    Interactive scope(world.mesh("data=2"));
    const Tensor x = full({4}, 2);
    const std::string text = error_of([&] { (job.rank == 0 ? x + 1 : exp(x)).read(); });
    std::lock_guard lock(mutex);
    errors.push_back(text);
  });
  for (const std::string& text : errors) EXPECT_THAT(text, HasSubstr("the ranks do not run the same program"));
}

}  // namespace
}  // namespace karez
