// Tests of the layout pass: channels-last and row-major values, copies where they pay off, and equal choices on all
// ranks.
#include "karez/passes/lowering/layout.h"

#include <gtest/gtest.h>

#include <random>

#include "karez/base/test_golden.h"
#include "karez/base/text.h"
#include "karez/passes/lowering/localise.h"
#include "karez/passes/lowering/stride_choice.h"
#include "karez/passes/lowering/test_layout.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/segment.h"
#include "karez/passes/scheduling/slots.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/device_cost.h"
#include "karez/passes/sharding/shard.h"
#include "karez/passes/sharding/shard_programs.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::orders_of;
using testing::RatedCatalog;
using Program = testing::LayoutProgram;

int count_calls(const Compilation& c, std::string_view kernel) {
  int count = 0;
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls) count += starts_with(call.kernel, kernel);
  return count;
}

// [n, t, h d] -> [n, h, t, d]
ValueId heads(Builder& b, ValueId x, std::int64_t n, std::int64_t t, std::int64_t h, std::int64_t d) {
  return build::transpose(b, build::reshape(b, x, {n, t, h, d}), {0, 2, 1, 3});
}

TEST(Layout, AValueBetweenAConvolutionAndAPoolIsChannelsLast) {
  Program p;
  ValueId x = p.input("x", {2, 8, 16, 16}), w = p.input("w", {4, 8, 3, 3});
  ValueId y = build::relu(p.b, build::conv2d(p.b, x, w));
  p.output(build::neg(p.b, build::max_pool(p.b, y).value));
  Compilation c = p.ordered();
  EXPECT_TRUE(
      golden(orders_of(c), "input 0123\ninput 0123\nconv2d 0231\nrelu 0231\nmax_pool 0231\nmax_pool 0231\nneg 0231\n"));
  run_passes(c, {"layout", "localise"});
  EXPECT_EQ(c.local.copies, 2) << "the image and the weight, which are row-major inputs, must be copied";
  EXPECT_EQ(count_calls(c, "plain."), 0);
}

TEST(Layout, AttentionScoresStayRowMajor) {
  Program p;
  ValueId q = heads(p.b, p.input("q", {2, 8, 12}), 2, 8, 3, 4), k = heads(p.b, p.input("k", {2, 8, 12}), 2, 8, 3, 4);
  ValueId scores = build::matmul(p.b, q, build::transpose(p.b, k, {0, 1, 3, 2}));
  p.output(build::softmax(p.b, build::mul(p.b, scores, build::full(p.b, DType::f32, {2, 3, 8, 8}, 0.5))));
  Compilation c = p.ordered();
  for (const Ints& order : layout(c.graph, *c.catalog, c.options.costs)) EXPECT_TRUE(order.empty()) << orders_of(c);
  run_passes(c, {"layout", "localise"});
  EXPECT_EQ(c.local.copies, 0);
  EXPECT_EQ(count_calls(c, "plain."), 0);
}

TEST(Layout, AProductHasTheOrderInWhichTheReshapeAfterItsTransposeIsAWindow) {
  Program p;
  ValueId weights = p.input("weights", {2, 3, 8, 8}), v = heads(p.b, p.input("v", {2, 8, 12}), 2, 8, 3, 4);
  ValueId y = build::matmul(p.b, weights, v);
  p.output(build::exp(p.b, build::reshape(p.b, build::transpose(p.b, y, {0, 2, 1, 3}), {16, 12})));
  Compilation c = p.ordered();
  EXPECT_NE(orders_of(c).find("matmul 0213"), std::string::npos) << orders_of(c);
  run_passes(c, {"layout", "localise"});
  EXPECT_EQ(c.local.copies, 0);
}

TEST(Layout, AValueWhoseReadersPreferDifferentOrdersIsCopiedOnce) {
  Program p;
  ValueId x = build::exp(p.b, p.input("x", {2, 8, 16, 16}));
  p.output(build::max_pool(p.b, x).value);
  p.output(build::tanh(p.b, build::reshape(p.b, x, {2, 2048})), "flat");
  Compilation c = p.ordered();
  run_passes(c, {"layout", "localise"});
  EXPECT_EQ(c.local.copies, 1) << orders_of(c);
  EXPECT_EQ(count_calls(c, "plain."), 0);
}

TEST(Layout, OperandAndResultOfATransferHaveTheSameOrderAndAWindowOperandIsCopied) {
  Program p("data=2");
  ValueId x = p.input("x", {4, 6});
  p.graph.value(x).layout = Layout{S(0)};
  ValueId y = build::exp(p.b, x);
  p.graph.value(y).layout = Layout{S(0)};
  ValueId transposed = build::transpose(p.b, y, {1, 0});
  p.graph.value(transposed).layout = Layout{S(1)};
  p.output(transposed);
  Compilation c = p.ordered();
  run_passes(c, {"layout", "localise"});
  for (const LocalSegment& segment : c.local.segments)
    if (segment.collective.valid()) {
      const LocalValue &in = c.local.values[segment.reads[0]], &out = c.local.values[segment.writes[0]];
      auto descending = [](const View& v) { return v.strides[0] > v.strides[1]; };
      EXPECT_EQ(descending(in.view), descending(out.view)) << in.view << " " << out.view;
    }
}

// Dimensions of equal sizes are identified by their strides.
TEST(Layout, AReshapeAfterATransposeIsAWindowEvenIfDimensionsHaveEqualSizes) {
  Program p;
  p.output(build::reshape(
      p.b, build::transpose(p.b, build::matmul(p.b, p.input("x", {4, 4, 6}), p.input("y", {4, 6, 6})), {1, 0, 2}),
      {16, 6}));
  Compilation c = p.ordered();
  EXPECT_EQ(orders_text(c.graph, layout(c.graph, *c.catalog, c.options.costs)), "%2 matmul f32[4, 4, 6]: 1 0 2\n");
  run_passes(c, {"layout", "localise"});
  EXPECT_EQ(c.local.copies, 0);
}

TEST(Layout, ThePassCanBePrintedAndSwitchedOff) {
  Graph graph = testing::cnn_step(Mesh::of({}), 8);
  Compilation on = testing::compilation(graph), off = testing::compilation(graph);
  const RatedCatalog catalog;
  on.catalog = off.catalog = &catalog;
  on.options.keep_text = true;
  off.options.off = {"layout"};
  compile(on), compile(off);
  std::string text;
  for (const PassTime& pass : on.passes)
    if (pass.name == "layout") text = pass.text;
  EXPECT_NE(text.find(" conv2d f32[8, 16, 26, 26]: 0 2 3 1\n"), std::string::npos) << text;
  EXPECT_TRUE(std::any_of(on.orders.begin(), on.orders.end(), [](const Ints& order) { return !order.empty(); }));
  EXPECT_TRUE(std::all_of(off.orders.begin(), off.orders.end(), [](const Ints& order) { return order.empty(); }))
      << "without the pass, all values are row-major";
  EXPECT_TRUE(
      std::none_of(off.passes.begin(), off.passes.end(), [](const PassTime& pass) { return pass.name == "layout"; }));
}

TEST(Layout, AllRanksChooseTheSameOrdersAlthoughTheirPartsDiffer) {
  auto orders = [](int rank) {
    Program p("data=3");
    for (std::size_t d = 0; d < 3; ++d) p.graph.meshes[0].devices[d] = {static_cast<int>(d), 0};
    ValueId x = p.input("x", {4, 8, 16, 16}), w = p.input("w", {4, 8, 3, 3});
    p.graph.value(x).layout = Layout{S(0)};
    p.output(build::max_pool(p.b, build::relu(p.b, build::conv2d(p.b, x, w))).value);
    return orders_of(p.ordered(rank));
  };
  EXPECT_NE(orders(0).find("conv2d 0231"), std::string::npos);
  EXPECT_EQ(orders(0), orders(1));
  EXPECT_EQ(orders(0), orders(2));
}

// Returns the seconds of the calls that localise creates, including copies.
double total_seconds(Compilation c, const DimensionOrders& orders) {
  c.orders = orders;
  run_passes(c, {"localise"});
  double seconds = 0;
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls)
      seconds += kernel_seconds(c.options.costs,
                                call.spec.op == "copy" ? copy_work(call.spec.in[0]) : device_work(c.graph, call.node),
                                *c.catalog->find(call.spec));
  return seconds;
}

// Adds convolutions, pools, sums, transposes and reshapes of images, and an update in place.
void add_random_calls(Program& p, std::mt19937_64& random, std::size_t calls) {
  auto below = [&](std::size_t count) { return random() % count; };
  std::vector<ValueId> values;
  for (int k = 0; k < 2; ++k)
    values.push_back(k ? p.input("x", {2, 4, 6, 6}) : testing::parameter(p.b, "w", {DType::f32, {2, 4, 6, 6}}));
  const ValueId weight = p.input("kernel", {4, 4, 3, 3}), factor = p.input("factor", {6, 5});
  while (calls > 0) {
    const ValueId x = values[below(values.size())], y = values[below(values.size())];
    const Shape shape = p.graph.type(x).shape;
    const bool image = shape.size() == 4, alike = p.graph.type(y).shape == shape;
    ValueId out;
    switch (below(9)) {
      case 0:
        if (image && shape[1] == 4 && shape[2] > 2 && shape[3] > 2) out = build::conv2d(p.b, x, weight);
        break;
      case 1:
        if (image && shape[2] > 1 && shape[3] > 1) out = build::max_pool(p.b, x).value;
        break;
      case 2:
        if (alike) out = build::add(p.b, x, y);
        break;
      case 3:
        if (alike && image) out = build::concat(p.b, std::vector{x, y}, 1);
        break;
      case 4:
        if (image) values.push_back(build::transpose(p.b, x, {0, 2, 3, 1}));
        continue;
      case 5:
        if (image) values.push_back(build::reshape(p.b, x, {shape[0] * shape[1] * shape[2], shape[3]}));
        continue;
      case 6:
        if (shape.size() == 2 && shape[1] == 6) out = build::matmul(p.b, x, factor);
        break;
      case 7:
        if (image) out = build::add(p.b, x, build::full(p.b, DType::f32, shape, 2));
        break;
      default: out = build::exp(p.b, x);
    }
    if (!out.valid()) continue;
    values.push_back(out);
    --calls;
    if (below(4) == 0) p.output(out, cat("y", calls));
  }
  p.output(values.back());
  const ValueId next = values[below(values.size())];
  if (next.index > 3 && p.graph.type(next) == p.graph.variables[0].type) p.graph.variables[0].updated = next;
}

TEST(Layout, OrdersOfRandomProgramsAreNearlyOptimalOnAverage) {
  constexpr int programs = 60;
  double sum_of_ratios = 0;
  int non_row_major = 0;
  for (std::uint64_t seed = 1; seed <= programs; ++seed) {
    std::mt19937_64 random(seed);
    Program p;
    add_random_calls(p, random, 3 + random() % 3);
    Compilation c = p.ordered();
    c.options.costs.memory_bytes = 1e9, c.options.costs.call = random() % 2 ? 1e-6 : 1e-9;
    const DimensionOrders orders = layout(c.graph, *c.catalog, c.options.costs);
    const double chosen_seconds = total_seconds(c, orders);
    std::vector<std::pair<ValueId, std::vector<Ints>>> free_values;
    for (ValueId v : c.graph.values.ids()) {
      non_row_major += !orders[v].empty();
      if (c.graph.node(c.graph.value(v).producer).op->role != Role::compute) continue;
      const std::size_t rank = c.graph.type(v).shape.size();
      if (rank == 4) free_values.push_back({v, {{}, {0, 2, 3, 1}}});
    }
    double min_seconds = chosen_seconds;
    for (std::size_t bits = 0; bits < std::size_t{1} << std::min<std::size_t>(free_values.size(), 6); ++bits) {
      DimensionOrders tried(c.graph.values.size());
      for (std::size_t f = 0; f < free_values.size() && f < 6; ++f)
        tried[free_values[f].first] = free_values[f].second[bits >> f & 1];
      min_seconds = std::min(min_seconds, total_seconds(c, tried));
    }
    sum_of_ratios += chosen_seconds / min_seconds;
  }
  EXPECT_GT(non_row_major, 100) << "many values must not be row-major";
  EXPECT_TRUE(pinned_at_most(sum_of_ratios / programs, 1.00634))
      << "mean ratio of the cost to the least cost; the ratio is 1 for 57 of the programs";
}

TEST(StrideChoice, AnOperandIsCopiedOnlyIfThatCostsLessThanTheSlowKernel) {
  RatedCatalog catalog;
  CostTable costs;
  CallSpec call;
  call.op = "pointwise";
  call.attrs.set("expr", "x0 + x1");
  auto with_size = [&](std::int64_t n) {
    View rows(DType::f32, {n, n}), columns(DType::f32, {n, n}, {1, n});
    call.in = {rows, columns}, call.out = {rows};
    double bytes = 12.0 * static_cast<double>(n * n);
    return choose_strides(catalog, costs, call, {WorkClass::memory, 0, bytes});
  };
  auto large = with_size(512);
  EXPECT_EQ(large->copied, (std::vector<bool>{false, true}));
  EXPECT_EQ(large->choice.kernel, "fast.pointwise");
  EXPECT_NEAR(
      large->seconds,
      costs.seconds({WorkClass::memory, 0, 12.0 * 512 * 512}) + costs.seconds({WorkClass::move, 0, 8.0 * 512 * 512}),
      1e-12);

  costs.memory_bytes = 1e30;  // now a copy costs as much as the fast call, and a plain call costs twenty times as much
  EXPECT_EQ(with_size(512)->choice.kernel, "fast.pointwise");
  EXPECT_NEAR(with_size(512)->seconds, 2 * costs.call, 1e-12);
  call.in = {View(DType::f32, {4, 4}), View(DType::f32, {4, 4})}, call.out = {View(DType::f32, {4, 4})};
  EXPECT_EQ(choose_strides(catalog, costs, call, {WorkClass::memory, 0, 192})->copied,
            (std::vector<bool>{false, false}))
      << "the call is fast without copies";
}

}  // namespace
}  // namespace karez::passes
