// Tests that compare explain_layout with a search of all assignments, which shares only the function that computes the
// cost of one assignment.
#include "karez/passes/sharding/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "karez/base/text.h"
#include "karez/passes/compile.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/scheduling/critical_cycle.h"
#include "karez/passes/sharding/setup_nodes.h"
#include "karez/passes/sharding/shard.h"
#include "karez/passes/sharding/shard_programs.h"

namespace karez::passes {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CostTable costs() {
  CostTable out;
  out.link = {1e-6, 1e-9};
  return out;
}

// y = relu(x w) v, with a module for each product.
Compilation two_products(const char* mesh) {
  Graph graph;
  graph.meshes = {Mesh::parse(mesh)};
  Builder b(graph, testing::table());
  b.where = "net.cc:7";
  const ValueId x = build::input(b, "x", {DType::f32, {64, 96}});
  b.path = "first";
  const ValueId w = testing::parameter(b, "first.weight", {DType::f32, {96, 128}});
  const ValueId h = build::relu(b, build::matmul(b, x, w));
  b.path = "second";
  const ValueId v = testing::parameter(b, "second.weight", {DType::f32, {128, 48}});
  const ValueId y = build::matmul(b, h, v);
  b.path = "";
  graph.outputs.push_back({"y", y});
  Compilation c = testing::compilation(graph);
  c.options.costs = costs();
  return c;
}

// Returns the cost of the cheapest assignment in which the value has this layout.
double cheapest(const Compilation& c, ValueId value, const Layout& layout) {
  Choices choices;
  for (NodeId n : c.graph.nodes.ids()) choices.push_back(choices_of(c.graph, n, c.options.costs));
  TransitionCostCache prices(c.options.costs);
  ById<NodeId, int> chosen(c.graph.nodes.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  const NodeId producer = c.graph.value(value).producer;
  while (true) {
    if (choices[producer][static_cast<std::size_t>(chosen[producer])].out(0) == layout)
      best = std::min(best, assignment_cost(c.graph, choices, chosen, prices));
    NodeId n(0);
    while (n.index < std::ssize(choices) && ++chosen[n] == std::ssize(choices[n]))
      chosen[n] = 0, n = NodeId(n.index + 1);
    if (n.index == std::ssize(choices)) return best;
  }
}

TEST(Explain, EachLayoutHasTheCostOfTheCheapestProgramWithThisLayout) {
  const Compilation c = two_products("model=4");
  std::size_t choices = 0;
  for (const char* name : {"first.weight", "second.weight", "x", "first", "y"}) {
    const LayoutExplanation e = explain_layout(c, name);
    Compilation canonical = c;
    run_passes(canonical, {"canonicalise"});
    ValueId value;
    for (const Variable& variable : canonical.graph.variables)
      if (variable.name == name) value = variable.read;
    for (const Node& node : canonical.graph.nodes)
      if (node.path == name || (node.op->name == "input" && node.attrs.text("name") == name)) value = node.outputs[0];
    if (std::string_view(name) == "y") value = canonical.graph.outputs[0].value;
    std::set<Layout> layouts;
    for (const LayoutAlternative& a : e.alternatives) {
      EXPECT_NEAR(a.seconds, cheapest(canonical, value, a.layout), 1e-12) << name << " as " << print(a.layout);
      EXPECT_GE(a.seconds, e.alternatives.front().seconds) << "the chosen layout must be the fastest";
      EXPECT_THAT(a.report, HasSubstr("optimal"));
      layouts.insert(a.layout);
    }
    EXPECT_EQ(layouts.size(), e.alternatives.size()) << "each layout must be listed once";
    std::set<Layout> legal;
    for (const NodeChoice& choice : choices_of(canonical.graph, canonical.graph.value(value).producer, c.options.costs))
      legal.insert(choice.out(0));
    EXPECT_EQ(layouts, legal);
    choices += layouts.size();
  }
  EXPECT_GT(choices, 12u);
}

TEST(Explain, CallsAndTransfersAddUpToTheCost) {
  for (int microbatches : {1, 2}) {
    Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2,model=2"), {96, 64, 10}, 64));
    c.options.costs = costs();
    c.options.microbatches = microbatches;
    run_passes(c, {"canonicalise", "microbatch"});
    const ShardedGraph alternative = shard(c.graph, c.options.costs);
    const CostBreakdown breakdown =
        passes::cost_breakdown(alternative.graph, alternative.operand_layouts, c.options.costs);
    double sum = 0;
    for (double seconds : breakdown.calls) sum += seconds;
    for (double seconds : breakdown.moves) sum += seconds;
    EXPECT_NEAR(sum, alternative.cost, 1e-12 * alternative.cost) << "microbatches=" << microbatches;
  }
}

TEST(Explain, SlowerPartsAreListedLargestFirst) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2,model=2"), {96, 64, 10}, 64));
  c.options.costs = costs();
  std::size_t multiple = 0;
  for (const LayoutAlternative& a : explain_layout(c, "fc1.weight").alternatives) {
    std::vector<double> numbers;
    for (const std::string& reason : a.slower) numbers.push_back(std::stod(reason.substr(reason.rfind('+') + 1)));
    EXPECT_TRUE(std::is_sorted(numbers.rbegin(), numbers.rend())) << ::testing::PrintToString(a.slower);
    EXPECT_LE(numbers.size(), 3u);
    multiple += numbers.size() > 1;
  }
  EXPECT_GT(multiple, 0u);
}

TEST(Explain, ARequestedLayoutIsComparedWithTheOthers) {
  Compilation c = two_products("model=4");
  for (Variable& variable : c.graph.variables)
    if (variable.name == "second.weight") variable.stored = Layout{S(1)};
  const LayoutExplanation e = explain_layout(c, "second.weight");
  EXPECT_TRUE(e.fixed);
  ASSERT_GT(e.alternatives.size(), 1u) << "layouts other than the requested one must be listed";
  EXPECT_EQ(e.alternatives[0].layout, Layout{S(1)});
  EXPECT_LT(e.alternatives[1].seconds, e.alternatives[0].seconds)
      << "another layout must be faster than the requested one";
  EXPECT_THAT(print(e), HasSubstr("f32[128, 48@model]: "));
  EXPECT_THAT(print(e), HasSubstr(", as requested; optimal"));
}

TEST(Explain, TheReportListsSlowerParts) {
  const std::string report = print(explain_layout(two_products("model=4"), "first.weight"));
  EXPECT_THAT(report,
              HasSubstr("'first.weight' on mesh(model=4), predicted for a launch of the whole program with each "
                        "of its layouts\n  f32["));
  EXPECT_THAT(report, HasSubstr(", chosen; optimal"));
  EXPECT_THAT(report, HasSubstr("    slower: "));
  EXPECT_THAT(report, ::testing::ContainsRegex("\\+[0-9.]+ us"));
  EXPECT_THAT(report, HasSubstr("net.cc:7"));
}

TEST(Explain, AMemoryLimitThatChangesLayoutsIsReported) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=4"), {64, 128, 64, 10}, 32));
  c.options.costs.link = {1e-4, 1e-12};
  Compilation unlimited = c;
  compile(unlimited);
  const auto bytes = planned_bytes(unlimited.plan);
  const std::int64_t needed_bytes = *std::max_element(bytes.begin(), bytes.end());
  c.options.memory = needed_bytes;
  EXPECT_THAT(print(explain_layout(c, "fc1.weight")), HasSubstr("\nthe fastest plan needs no more than the limit of "));
  c.options.memory = needed_bytes / 2;
  Compilation limited = c;
  compile(limited);
  int changed = 0;
  for (const Variable& variable : limited.graph.variables) {
    const LayoutExplanation e = explain_layout(c, variable.name);
    ASSERT_TRUE(e.within && e.within->layout) << variable.name;
    EXPECT_EQ(*e.within->layout, *variable.stored) << variable.name;
    changed += *e.within->layout != e.alternatives[0].layout;
  }
  EXPECT_GT(changed, 0);
  const std::string report = print(explain_layout(c, "fc1.weight"));
  EXPECT_THAT(report,
              ::testing::ContainsRegex(
                  ": chosen within [0-9.]+ KiB per device\n  within [0-9.]+ KiB per device: calls and transfers of "));
  EXPECT_THAT(report, HasSubstr("\nwithout that limit:\n  f32["));
  EXPECT_FALSE(explain_layout(c, "%5").within->layout);
  c.options.memory = 1000;
  EXPECT_THAT(print(explain_layout(c, "fc1.weight")),
              HasSubstr("but the limit is 1000 B (1000 bytes)\nwithout that limit:\n"));
}

// Returns the expected report. It is computed only from costs: the planner plans the program once for each layout.
std::string expected_text(Compilation c, const std::string& name, ValueId value, bool fixed,
                          const std::vector<Layout>& layouts) {
  run_passes(c, {"canonicalise", "microbatch"});
  const Mesh& mesh = c.graph.mesh(value);
  std::string out = cat("'", name, "' on ", sbp::print(mesh),
                        ", predicted for a launch of the whole program with each of its layouts",
                        c.options.costs.is_default() ? "," : "", default_costs_warning(c.options.costs), "\n");
  const auto sharded = [&](const Graph& graph) {
    const Graph marked = with_setup_nodes(graph, *c.catalog);
    return shard(marked, c.options.costs, fused_values(marked, *c.catalog));
  };
  const ShardedGraph chosen = sharded(c.graph);
  const CostBreakdown old_costs = cost_breakdown(chosen.graph, chosen.operand_layouts, c.options.costs, chosen.fused);
  for (const Layout& layout : layouts) {
    Graph graph = c.graph;
    graph.value(value).layout = layout;
    for (Variable& variable : graph.variables)
      if (variable.read == value) variable.stored = layout;
    const ShardedGraph alternative = sharded(graph);
    const CostBreakdown new_costs =
        cost_breakdown(alternative.graph, alternative.operand_layouts, c.options.costs, alternative.fused);
    double calls = 0;
    std::multimap<double, std::string, std::greater<>> increases;
    for (NodeId n : graph.nodes.ids())
      calls += new_costs.calls[n], increases.emplace(new_costs.calls[n] - old_costs.calls[n], describe(graph, n));
    for (ValueId v : graph.values.ids())
      increases.emplace(new_costs.moves[v] - old_costs.moves[v],
                        cat("transfer of ", describe(graph, graph.value(v).producer)));
    const bool is_first = layout == layouts[0];
    const double percent = std::round(std::abs(alternative.cost - chosen.cost) / chosen.cost * 10000) / 100;
    out += cat("  ", sbp::print(c.graph.type(value), mesh, layout), ": ", microseconds(alternative.cost), ", ",
               microseconds(calls), " in calls and ", microseconds(alternative.cost - calls), " in transfers",
               is_first ? (fixed ? ", as requested" : ", chosen")
                        : cat(alternative.cost < chosen.cost ? ", -" : ", +", base::number(percent), " %"),
               "; ", alternative.report, "\n");
    std::string slower;
    int listed = 0;
    for (const auto& [seconds, part] : increases)
      if (!is_first && seconds > 1e-9 && listed++ < 3)
        slower += cat(slower.empty() ? "    slower: " : "; ", part, " +", microseconds(seconds));
    if (!slower.empty()) out += slower + "\n";
  }
  return out;
}

TEST(Explain, TheReportListsTheTimeAndTheSlowerPartsForEachLayout) {
  struct ExplainCase {
    const char* name;
    int microbatches;
    std::optional<Layout> fixed;  // fixed layout of the value, not of a variable
  };
  std::size_t alternatives_count = 0, cheaper = 0;
  for (const ExplainCase& test_case :
       {ExplainCase{"fc1.weight", 1, {}}, ExplainCase{"fc2.weight", 2, {}}, ExplainCase{"fc1", 1, {}},
        ExplainCase{"x", 4, {}}, ExplainCase{"fc1", 1, Layout{B(), B()}},
        ExplainCase{"fc2.bias", 2, Layout{S(0), B()}}}) {
    Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2,model=2"), {96, 64, 10}, 64));
    c.options.costs = costs();
    c.options.microbatches = test_case.microbatches;
    auto value_named = [&](const Graph& graph) {
      ValueId value;
      for (const Node& node : graph.nodes)
        if (node.path == test_case.name || (node.attrs.has("name") && node.attrs.text("name") == test_case.name))
          value = node.outputs[0];
      return value;
    };
    if (test_case.fixed) c.graph.value(value_named(c.graph)).layout = test_case.fixed;
    const LayoutExplanation e = explain_layout(c, test_case.name);
    std::vector<Layout> layouts;
    for (const LayoutAlternative& a : e.alternatives) {
      cheaper += a.seconds < e.alternatives[0].seconds;
      layouts.push_back(a.layout);
    }
    alternatives_count += layouts.size() - 1;
    EXPECT_TRUE(std::is_sorted(e.alternatives.begin() + 1, e.alternatives.end(),
                               [](const auto& a, const auto& b) { return a.seconds < b.seconds; }));
    EXPECT_EQ(e.fixed, test_case.fixed.has_value()) << test_case.name;
    Compilation canonical = c;
    run_passes(canonical, {"canonicalise", "microbatch"});
    EXPECT_EQ(print(e),
              expected_text(c, test_case.name, value_named(canonical.graph), test_case.fixed.has_value(), layouts));
  }
  EXPECT_GT(alternatives_count, 15u);
  EXPECT_GT(cheaper, 0u) << "in some case another layout must be faster than the requested one";
}

TEST(Explain, AnUnknownNameIsAnErrorWithSimilarNames) {
  const Compilation c = two_products("model=4");
  EXPECT_EQ(explain_layout(c, "%0").type, explain_layout(c, "x").type);
  try {
    explain_layout(c, "frist.weight");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "unknown value, module or variable 'frist.weight'; there are 6: first.weight, second.weight, "
                 "first, second, x, y; or %0 to %5");
    EXPECT_EQ(error.kind, ErrorKind::user);
  }
  EXPECT_THROW(explain_layout(c, "%6"), Error);
  EXPECT_THROW(explain_layout(c, ""), Error);
}

}  // namespace
}  // namespace karez::passes
