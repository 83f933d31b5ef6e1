// Tests of the plan cache on disk: only an equal program with equal options is a hit. A hit gives the same plan without
// a search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "karez/api/namespace.h"
#include "karez/api/ranks/test_ranks.h"
#include "karez/api/state/build_id.h"
#include "karez/api/state/plan_cache.h"
#include "karez/api/testing/test_cache.h"
#include "karez/device/cpu_budget.h"
#include "karez/karez.h"
#include "karez/kernels/kernel.h"
#include "karez/ops/all_ops.h"
#include "karez/ops/build.h"

namespace karez {
namespace {

using ::testing::HasSubstr;

struct Net : nn::Module {
  nn::Linear fc1{*this, "fc1", 8, 16}, fc2{*this, "fc2", 16, 4};
  Tensor operator()(Tensor x) { return fc2(tanh(fc1(x))); }
};

struct Trained {
  std::vector<double> losses;
  std::vector<std::string> passes;
  std::string plan, summary, report, graph;
  bool from_disk() const { return passes == std::vector<std::string>{"cache"}; }
};

// Removes the line about other programs that use the cores, which may differ between runs.
std::string without_contention_line(std::string summary) {
  const std::size_t at = summary.find("\ncores: ");
  return at == summary.npos ? summary : summary.erase(at, summary.find('\n', at + 1) - at);
}

Trained train(WorldOptions options, FunctionOptions function_options = {}, const std::string& mesh = "data=2") {
  World world(std::move(options));
  Net net;
  optim::Adam adam(net.parameters(), {.lr = 0.01});
  auto step = compile(
      world.mesh(mesh),
      [&](Tensor x) {
        Tensor y = net(x), loss = mean(y * y);
        adam.step(grad(loss, net.parameters()));
        return loss;
      },
      std::move(function_options));
  HostArray x(TensorType{DType::f32, {12, 8}});
  for (std::size_t i = 0; i < 96; ++i) x.data<float>()[i] = static_cast<float>(i % 7) - 3;
  Trained out;
  for (int i = 0; i < 4; ++i) out.losses.push_back(step(x).item());
  for (const PassTime& pass : step.passes()) out.passes.push_back(pass.name);
  out.plan = step.plan_text(), out.summary = without_contention_line(step.summary()), out.report = step.shard_report(),
  out.graph = step.graph_text();
  return out;
}
Trained train(FunctionOptions function_options = {}) { return train({.devices = 2}, std::move(function_options)); }

void expect_same(const Trained& a, const Trained& b) {
  EXPECT_EQ(a.losses, b.losses) << "losses must be bit for bit the same";
  EXPECT_EQ(a.plan, b.plan);
  EXPECT_EQ(a.summary, b.summary);
  EXPECT_EQ(a.report, b.report);
  EXPECT_EQ(a.graph, b.graph);
}

TEST(PlanCache, AHitGivesTheSamePlanWithoutASearch) {
  TemporaryCache test;
  const Trained first = train(), second = train();
  EXPECT_FALSE(first.from_disk());
  EXPECT_TRUE(second.from_disk()) << testing::PrintToString(second.passes);
  expect_same(first, second);
  EXPECT_THAT(second.plan, testing::HasSubstr("\ncost link alpha="))
      << "a cached plan must contain the costs of its world too";
  EXPECT_FALSE(test.files().empty());
}

TEST(PlanCache, ACacheThatIsOffStoresNothing) {
  TemporaryCache test;
  ::setenv("KAREZ_CACHE", "off", 1);
  EXPECT_FALSE(train().from_disk());
  EXPECT_FALSE(train().from_disk());
  EXPECT_TRUE(test.files().empty());
}

TEST(PlanCache, DamagedFilesAreReplaced) {
  TemporaryCache test;
  const Trained first = train();
  for (const char* damage : {"cut", "flipped", "foreign"}) {
    const auto files = test.files();
    ASSERT_GE(files.size(), 2u) << "expected the plan of the step and the plan that writes first values";
    std::string previous;
    for (const auto& file : files) {
      std::ifstream in(file, std::ios::binary);
      std::string bytes{std::istreambuf_iterator<char>(in), {}}, original = bytes;
      if (damage == std::string_view("cut")) bytes.resize(bytes.size() / 2);
      else if (damage == std::string_view("flipped")) bytes[bytes.size() / 2] ^= 4;
      else bytes = previous.empty() ? "not one of ours" : previous;
      previous = original;
      std::ofstream(file, std::ios::binary) << bytes;
    }
    testing::internal::CaptureStderr();
    const Trained recomputed = train();
    const std::string message = testing::internal::GetCapturedStderr();
    EXPECT_FALSE(recomputed.from_disk()) << damage;
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), static_cast<std::ptrdiff_t>(files.size())) << message;
    EXPECT_THAT(message, HasSubstr("; it is made again")) << damage;
    expect_same(first, recomputed);
    EXPECT_TRUE(train().from_disk()) << "the new file must be valid";
  }
}

TEST(PlanCache, APlanIsReusedOnlyForEqualOptions) {
  TemporaryCache test;
  EXPECT_FALSE(train().from_disk());
  EXPECT_FALSE(train({.name = "other"}).from_disk());
  EXPECT_FALSE(train({.remat = {"fc1"}}).from_disk());
  EXPECT_FALSE(train({.microbatches = 2}).from_disk());
  EXPECT_FALSE(train({.off = {"fuse"}}).from_disk());
  EXPECT_FALSE(train({.rules = {{"fc1.weight", P("data", nullptr)}}}).from_disk());
  EXPECT_FALSE(train({.devices = 2, .memory = 1 << 20}).from_disk());
  EXPECT_FALSE(train({.devices = 2, .team = 2}).from_disk());
  if (device::cpu_budget().cores > 1) {
    EXPECT_FALSE(train({.devices = 2, .data_cores = 1}).from_disk()) << "kernels have fewer threads";
  }
  CostTable costs;
  costs.call *= 2;
  EXPECT_FALSE(train({.devices = 2, .costs = costs}).from_disk());
  EXPECT_FALSE(train({.devices = 2}, {}, "model=2").from_disk());
  EXPECT_FALSE(train({.keep_text = true}).from_disk());
  EXPECT_FALSE(train({.keep_text = true}).from_disk()) << "a program whose passes keep their texts must not be cached";
  EXPECT_TRUE(train().from_disk());
  EXPECT_TRUE(train({.remat = {"fc1"}}).from_disk());
  EXPECT_TRUE(train({.devices = 2, .memory = 1 << 20}).from_disk());
}

// The key contains every field of the options, and the build.
TEST(PlanCache, EachOptionIsInTheKey) {
  Compilation plain;
  const std::string key = key_of("build", plain);
  EXPECT_NE(key, key_of("another build", plain));
  const std::vector<std::function<void(CompileOptions&)>> changes = {
      [](CompileOptions& o) { o.costs.link.alpha = 1; },
      [](CompileOptions& o) {
        o.costs.axis_links = {{"data", {}}};
      },
      [](CompileOptions& o) { o.rank = 1; },
      [](CompileOptions& o) { o.world = 2; },
      [](CompileOptions& o) { o.team = 2; },
      [](CompileOptions& o) { o.workers = 2; },
      [](CompileOptions& o) { o.slots = 3; },
      [](CompileOptions& o) { o.microbatches = 2; },
      [](CompileOptions& o) { o.batch = 8; },
      [](CompileOptions& o) { o.memory = 9; },
      [](CompileOptions& o) { o.fold_bytes = 0; },
      [](CompileOptions& o) { o.amp = DType::bf16; },
      [](CompileOptions& o) { o.remat = {"a b"}; },
      [](CompileOptions& o) {
        o.remat = {"a", "b"};
      },
      [](CompileOptions& o) {
        o.off = {"a", "b"};
      },
      [](CompileOptions& o) { o.reassociate = true; },
      [](CompileOptions& o) { o.check_nan = true; },
      [](CompileOptions& o) { o.keep_text = true; },
  };
  std::set<std::string> keys = {key};
  for (const auto& change : changes) {
    Compilation c;
    change(c.options);
    EXPECT_TRUE(keys.insert(key_of("build", c)).second) << key_of("build", c);
  }
}

// Returns a program whose plan is neither the fastest nor proven optimal, because of a memory limit.
passes::Compilation make_limited_compilation(const OpTable& ops, const KernelTable& kernels) {
  passes::Compilation c;
  Builder b(c.graph, ops);
  c.graph.meshes = {Mesh::parse("data=2")};
  ValueId h = ops::build::input(b, "x", {DType::f32, {64, 64}});
  for (int layer = 0; layer < 8; ++layer) {
    Variable w{cat("w", layer), {DType::f32, {64, 64}}, 0, {}, {}, {}};
    w.read = ops::build::variable(b, w.name, w.type);
    h = ops::build::relu(b, ops::build::matmul(b, h, w.read));
    w.updated = ops::build::mul(b, w.read, w.read);
    c.graph.variables.push_back(w);
  }
  c.graph.outputs.push_back({"y", h});
  c.ops = &ops, c.catalog = &kernels;
  c.options.memory = 210 << 10;
  return c;
}

// The predicted cost and its bound are also read from disk, although running the plan does not need them.
TEST(PlanCache, CostsBoundsAndReportsAreCached) {
  TemporaryCache test;
  const OpTable ops = all_ops();
  const KernelTable kernels(cpu_kernels());
  PlanCache cache(test.path.string(), false);
  passes::Compilation first = make_limited_compilation(ops, kernels), second = make_limited_compilation(ops, kernels);
  cache.compile(first), cache.compile(second);
  ASSERT_EQ(second.passes[0].name, "cache");
  EXPECT_FALSE(first.optimal) << first.shard_report;
  EXPECT_LT(first.cost_bound, first.cost);
  EXPECT_EQ(second.cost, first.cost);
  EXPECT_EQ(second.cost_bound, first.cost_bound);
  EXPECT_EQ(second.optimal, first.optimal);
  EXPECT_EQ(second.shard_report, first.shard_report);
  EXPECT_FALSE(first.slot_assignment.memory_note.empty());
  EXPECT_EQ(second.slot_assignment.memory_note, first.slot_assignment.memory_note);
}

// The checksum of each file is valid, but its text is malformed.
TEST(PlanCache, MalformedTextIsRejected) {
  TemporaryCache test;
  const OpTable ops = all_ops();
  const KernelTable kernels(cpu_kernels());
  passes::Compilation first = make_limited_compilation(ops, kernels);
  PlanCache(test.path.string(), false).compile(first);
  const auto files = test.files();
  ASSERT_EQ(files.size(), 1u);
  std::ifstream in(files[0], std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  const std::size_t header_size = 64, key_size = std::stoul(file.substr(14, 16), nullptr, 16);
  const std::string key = file.substr(header_size, key_size), text = file.substr(header_size + key_size);
  for (const auto& [fragment, replacement] : std::map<std::string, std::string>{
           {" optimal ", " "}, {" open ", " maybe "}, {" report ", " rapport "}, {"\n", " more\n"}}) {
    std::string malformed = text;
    const std::size_t at = malformed.find(fragment);
    if (at == malformed.npos) continue;
    malformed.replace(at, fragment.size(), replacement);
    CacheFolder(test.path.string()).store(key, malformed);
    passes::Compilation second = make_limited_compilation(ops, kernels);
    testing::internal::CaptureStderr();
    PlanCache(test.path.string(), false).compile(second);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot be read: ")) << replacement;
    EXPECT_NE(second.passes[0].name, "cache") << replacement;
  }
}

TEST(PlanCache, TheTestProgramHasABuildId) {
  EXPECT_GE(build_id().size(), 16u);
  EXPECT_EQ(build_id(), build_id());
}

TEST(PlanCache, WithUserDefinedOpsNothingIsStored) {
  TemporaryCache test;
  OpDef op;
  op.name = "custom";
  op.inputs = 1;
  op.index = "i j -> i j";
  op.infer = [](std::span<const TensorType> in, const Attrs&) { return std::vector<TensorType>{in[0]}; };
  train({.devices = 2, .ops = {op}});
  EXPECT_TRUE(test.files().empty());
}

TEST(PlanCache, ARankThatReadsItsPlanAgreesWithARankThatMakesItsPlan) {
  TemporaryCache test;
  std::vector<Trained> first(2), second(2), third(2);
  auto run = [&](std::vector<Trained>& out) {
    on_ranks(2, [&](const Ranks& ranks) { out[static_cast<std::size_t>(ranks.rank)] = train({.ranks = ranks}, {}); });
  };
  run(first);
  run(second);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(second[rank].from_disk());
    expect_same(first[rank], second[rank]);
  }
  EXPECT_NE(first[0].plan, first[1].plan) << "each rank must have a different part of the plan";
  for (const auto& file : test.files()) {
    std::ifstream in(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (bytes.find("rank 0 of 2") != bytes.npos) std::filesystem::remove(file);
  }
  run(third);
  EXPECT_FALSE(third[0].from_disk());
  EXPECT_TRUE(third[1].from_disk());
  for (std::size_t rank = 0; rank < 2; ++rank) expect_same(first[rank], third[rank]);
}

}  // namespace
}  // namespace karez
