// Tests of the hoist pass: calls on constants run once, when the plan is loaded, and only their results stay in memory.
#include "karez/passes/lowering/hoist.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "karez/ops/attention.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

struct Program {
  Graph graph;
  Builder b;
  explicit Program(const char* mesh = "") : b(graph, table()) {
    graph.name = "program";
    graph.meshes = {Mesh::parse(mesh)};
  }
  ValueId input(const char* name, Shape shape, DType dtype = DType::f32) {
    return build::input(b, name, {dtype, std::move(shape)});
  }
  void output(ValueId v) { graph.outputs.push_back({"y", v}); }
  // Without fuse, which would merge calls that the tests count.
  Compilation compiled(std::vector<std::string> off = {}) {
    Compilation c = testing::compilation(graph);
    c.options.off = std::move(off);
    c.options.off.emplace_back("fuse");
    compile(c);
    return c;
  }
};

std::vector<std::string> kernels(const std::vector<plan::Call>& calls) {
  std::vector<std::string> names;
  for (const plan::Call& call : calls) names.push_back(call.kernel);
  return names;
}
std::vector<std::string> launch_kernels(const Plan& plan) {
  std::vector<std::string> names;
  for (const plan::Actor& actor : plan.actors)
    for (const plan::Call& call : actor.calls) names.push_back(call.kernel);
  return names;
}
std::int64_t constant_bytes(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const plan::Block& block : plan.blocks)
    if (block.kind == plan::BlockKind::constant) bytes += block.bytes;
  return bytes;
}

constexpr std::int64_t n = 4096;  // elements; n f32 elements have more bytes than a folded constant may have

TEST(Hoist, ALaunchRunsOnlyCallsThatDependOnItsInputs) {
  Program p;
  ValueId table = build::exp(p.b, build::iota(p.b, {DType::f32, {n}}, 0));
  p.output(build::add(p.b, p.input("x", {n}), table));
  const Compilation c = p.compiled();
  EXPECT_EQ(kernels(c.plan.setup).size(), 2u) << print(c.plan);
  EXPECT_EQ(launch_kernels(c.plan).size(), 1u) << print(c.plan);
  EXPECT_EQ(parse_plan(print(c.plan)), c.plan);
  const Compilation off = p.compiled({"hoist"});
  EXPECT_EQ(off.plan.setup.size(), 1u);
  EXPECT_EQ(launch_kernels(off.plan).size(), 2u);
}

TEST(Hoist, OnlyTheResultOfAChainStaysInMemory) {
  Program p;
  ValueId table = build::iota(p.b, {DType::f32, {n}}, 0);
  for (int i = 0; i < 5; ++i) table = build::exp(p.b, table);
  p.output(build::add(p.b, p.input("x", {n}), table));
  EXPECT_EQ(constant_bytes(p.compiled().plan), 4 * n);
}

TEST(Hoist, IntermediateValuesOfADifferentTypeShareBytesWithLaterValues) {
  Program p;
  ValueId f64_value = build::iota(p.b, {DType::f64, {n}}, 0);
  ValueId f32_value = build::cast(p.b, build::exp(p.b, f64_value), DType::f32);
  ValueId second_f32_value =
      build::cast(p.b, build::sin(p.b, build::exp(p.b, build::iota(p.b, {DType::f64, {n}}, 0))), DType::f32);
  ValueId x = p.input("x", {n});
  p.output(build::add(p.b, build::add(p.b, x, f32_value), second_f32_value));
  const Plan plan = p.compiled().plan;
  EXPECT_LE(constant_bytes(plan), (8 + 8 + 4) * n)
      << "expected at most two f64 values and one f32 result at the same time";
  for (std::size_t i = 0; i < plan.setup.size(); ++i) {
    const plan::Operand& result = plan.setup[i].out[0];
    if (result.view.dtype != DType::f32) continue;
    for (std::size_t later = i + 1; later < plan.setup.size(); ++later) {
      const plan::Operand& out = plan.setup[later].out[0];
      EXPECT_TRUE(result.offset + result.view.bytes() <= out.offset || out.offset + out.view.bytes() <= result.offset)
          << print(plan);
    }
  }
}

// A value that launches also read must not be overwritten by the next call.
TEST(Hoist, AnIntermediateValueThatLaunchesReadIsNotOverwritten) {
  Program p;
  ValueId first = build::exp(p.b, build::iota(p.b, {DType::f32, {n}}, 0)), second = build::exp(p.b, first);
  ValueId x = p.input("x", {n});
  p.output(build::add(p.b, build::mul(p.b, x, first), second));
  const Compilation c = p.compiled();
  EXPECT_EQ(constant_bytes(c.plan), 2 * 4 * n);
  ASSERT_EQ(c.plan.setup.size(), 3u);
  EXPECT_EQ(c.plan.setup[0].out[0].offset, c.plan.setup[1].out[0].offset) << "exp must overwrite its operand";
  EXPECT_NE(c.plan.setup[1].out[0].offset, c.plan.setup[2].out[0].offset);
}

TEST(Hoist, ABroadcastStaysAWindow) {
  Program p;
  ValueId row = build::exp(p.b, build::iota(p.b, {DType::f32, {n}}, 0));
  p.output(build::add(p.b, p.input("x", {8, n}), build::broadcast(p.b, row, {8, n}, {1})));
  const Compilation c = p.compiled();
  EXPECT_EQ(constant_bytes(c.plan), 4 * n);
  EXPECT_EQ(launch_kernels(c.plan).size(), 1u);
}

TEST(Hoist, CallsThatReadInputsOrVariablesStayInTheLaunch) {
  Program p;
  ValueId w = testing::parameter(p.b, "w", {DType::f32, {n}});
  p.output(build::add(p.b, build::exp(p.b, p.input("x", {n})), build::exp(p.b, w)));
  const Compilation c = p.compiled();
  EXPECT_TRUE(c.plan.setup.empty());
  EXPECT_EQ(launch_kernels(c.plan).size(), 3u);
}

// A catalog whose reduce_sum needs workspace.
class WorkspaceCatalog : public testing::AnyCatalog {
 public:
  std::int64_t bytes = 0;
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    auto choice = AnyCatalog::find(call);
    if (choice && call.op == "reduce_sum") choice->workspace = bytes;
    return choice;
  }
};

TEST(Hoist, ACallThatNeedsMoreWorkspaceThanItsResultStaysInTheLaunch) {
  Program p;
  ValueId total = build::reduce_sum(p.b, build::iota(p.b, {DType::f32, {64, n}}, 1), {0});
  p.output(build::add(p.b, p.input("x", {n}), total));
  for (std::int64_t bytes : {65536, 65537}) {
    Compilation c = testing::compilation(p.graph);
    WorkspaceCatalog workspace;
    workspace.bytes = bytes;
    c.catalog = &workspace;
    compile(c);
    const bool is_hoisted = bytes == 65536;
    ASSERT_EQ(c.plan.setup.size(), is_hoisted ? 2u : 1u);
    EXPECT_EQ(launch_kernels(c.plan).size(), is_hoisted ? 1u : 2u);
    if (!is_hoisted) continue;
    const plan::Call& call = c.plan.setup[1];
    ASSERT_TRUE(call.workspace.has_value());
    EXPECT_EQ(plan::BlockKind::constant, c.plan.block(call.workspace->block).kind);
    for (const plan::Operand* operand : {&call.in[0], &call.out[0]})
      EXPECT_TRUE(operand->offset + operand->view.bytes() <= call.workspace->offset ||
                  call.workspace->offset + bytes <= operand->offset);
  }
}

TEST(Hoist, EveryDeviceComputesItsPartOfAConstant) {
  Program p("data=2");
  ValueId x = p.input("x", {n});
  p.graph.value(x).layout = Layout{S(0)};
  ValueId positions = build::iota(p.b, {DType::f32, {n}}, 0);
  p.graph.value(positions).layout = Layout{S(0)};
  p.output(build::add(p.b, x, build::exp(p.b, positions)));
  const Compilation c = p.compiled();
  ASSERT_EQ(c.plan.setup.size(), 4u) << print(c.plan);
  std::vector<std::int64_t> starts;
  for (const plan::Call& call : c.plan.setup) {
    EXPECT_EQ(call.out[0].view.shape, Shape{n / 2});
    if (call.attrs.has("start")) starts.push_back(call.attrs.integer("start"));
  }
  EXPECT_EQ(starts, (std::vector<std::int64_t>{0, n / 2}));
  EXPECT_EQ(constant_bytes(c.plan), 4 * n);
}

TEST(Hoist, NoDeviceReadsConstantsOfAnotherDevice) {
  Program p("data=2");
  ValueId positions = build::iota(p.b, {DType::f32, {n}}, 0);
  p.graph.value(positions).layout = Layout{B()};
  ValueId exponentials = build::exp(p.b, positions), x = p.input("x", {n});
  p.graph.value(exponentials).layout = Layout{B()};
  p.graph.value(x).layout = Layout{B()};
  p.output(build::add(p.b, x, exponentials));
  const Plan plan = p.compiled().plan;
  ASSERT_EQ(plan.setup.size(), 4u) << print(plan);
  for (const plan::Call& call : plan.setup)
    for (const plan::Operand& in : call.in)
      EXPECT_EQ(plan.block(in.block).device, plan.block(call.out[0].block).device);
}

// The launch reads twelve tables one at a time. If it computes them, they need the memory of only one table.
TEST(Hoist, IfNotAllConstantsFitThePlanStoresSomeOfThem) {
  Program p;
  ValueId x = p.input("x", {n});
  for (int i = 1; i <= 12; ++i) {
    ValueId step = build::full_like(p.b, x, i);
    x = build::mul(p.b, x, build::exp(p.b, build::mul(p.b, build::iota(p.b, {DType::f32, {n}}, 0), step)));
  }
  p.output(x);
  const auto bytes = [](const Compilation& c) { return planned_bytes(c.plan)[DeviceId(0)]; };
  const std::int64_t bytes_with_constants = bytes(p.compiled()), bytes_without_constants = bytes(p.compiled({"hoist"}));
  ASSERT_LT(bytes_without_constants, bytes_with_constants);
  Compilation c = testing::compilation(p.graph);
  c.options.off = {"fuse"};
  c.options.memory = bytes_with_constants - 1;
  compile(c);
  EXPECT_LE(bytes(c), bytes_with_constants - 1);
  EXPECT_LT(launch_kernels(c.plan).size(), launch_kernels(p.compiled({"hoist"}).plan).size())
      << c.slot_assignment.memory_note;
  EXPECT_GT(launch_kernels(c.plan).size(), 12u);
  EXPECT_NE(c.slot_assignment.memory_note.find("constants that do not fit are computed in every launch: "),
            std::string::npos)
      << c.slot_assignment.memory_note;
  Compilation smallest = testing::compilation(p.graph);
  smallest.options.off = {"fuse"};
  smallest.options.memory = bytes_without_constants;
  compile(smallest);
  EXPECT_EQ(bytes(smallest), bytes_without_constants) << "no constant must be stored";
  Compilation unrestricted = testing::compilation(p.graph);
  unrestricted.options.off = {"fuse"};
  unrestricted.options.memory = bytes_with_constants;
  compile(unrestricted);
  EXPECT_EQ(launch_kernels(unrestricted.plan).size(), 12u) << "constants that fit must be stored";
}

Compilation attention(std::int64_t t) {
  Program p;
  ValueId q = p.input("q", {1, 2, t, 8}), k = p.input("k", {1, 2, t, 8}), v = p.input("v", {1, 2, t, 8});
  p.output(build::attention(p.b, q, k, v, {.causal = true}));
  return p.compiled();
}

TEST(Hoist, ACausalMaskIsOneTableOfBoolsThatIsComputedOnlyInTheSetup) {
  const std::int64_t t = 2048;
  const Compilation c = attention(t);
  EXPECT_LE(constant_bytes(c.plan), t * t + 2 * 8 * t + 1024) << print(c.plan);
  for (const plan::Actor& actor : c.plan.actors)
    for (const plan::Call& call : actor.calls)
      for (const plan::Operand& out : call.out) EXPECT_NE(out.view.dtype, DType::b8) << print(c.plan);
  for (const plan::Call& call : c.plan.setup)
    for (const plan::Operand& out : call.out) EXPECT_TRUE(out.view.dtype != DType::i64 || out.view.bytes() <= 8 * t);
  const std::int64_t bytes = planned_bytes(attention(8192).plan)[DeviceId(0)];
  EXPECT_LE(bytes, 8192ll * 8192 * (2 * 4 + 1) + (8 << 20)) << "expected at most the scores of two heads and one mask";
  std::printf("attention of 8192 positions and 2 heads: %.1f MB planned with the mask\n",
              static_cast<double>(bytes) / 1e6);
}

}  // namespace
}  // namespace karez::passes
