// Planner optimality: on random graphs the planner's choice costs as much as the best of all choices, found by a search
// that shares only the cost table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "karez/passes/sharding/layout_assignment.h"
#include "karez/passes/sharding/shard_search.h"
#include "karez/passes/sharding/test_choice_cost.h"
#include "karez/passes/sharding/test_trees.h"
#include "karez/passes/test_programs.h"
#include "karez/passes/test_random_graphs.h"

namespace karez::passes {
namespace {

using testing::pick;
using testing::Random;
using testing::random_costs;
using testing::random_graph;

std::uint64_t base_seed() {
  const char* given = std::getenv("KAREZ_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 1;
}

// Tries every combination of the nodes' choices. With `constants_at_load`, values that the set-up computes cost
// nothing.
class BruteForce {
 public:
  BruteForce(const Graph& graph, const CostTable& costs, bool constants_at_load = false)
      : graph_(graph),
        mesh_(graph.meshes[0]),
        costs_(costs),
        constants_at_load_(constants_at_load) {
    for (NodeId n : graph.nodes.ids()) {
      auto& mine = choices_.emplace_back();
      for (auto& axes : mesh_shardings({&graph, n}, mesh_))
        if (allowed(n, axes)) mine.push_back(std::move(axes));
    }
  }
  double count() const {
    double out = 1;
    for (const auto& list : choices_) out *= static_cast<double>(list.size());
    return out;
  }
  using Chosen = ById<NodeId, std::size_t>;
  // Seconds of one choice for every node; infinite if zeros of a masked sum may meet an infinity.
  double price(const Chosen& chosen) {
    if (!sound(chosen)) return INFINITY;
    if (values_.empty()) {
      for (NodeId n : choices_.ids()) {
        auto& mine = compute_.emplace_back();
        for (const auto& axes : choices_[n]) mine.push_back(compute_seconds(n, axes));
      }
      for (ValueId v : graph_.values.ids()) values_.push_back(priced(v));
    }
    double sum = 0;
    const std::set<NodeId> found = found_whole(chosen);
    for (NodeId n : chosen.ids())
      if (!computed_at_load(n, found)) sum += compute_[n][chosen[n]];
    for (Priced& value : values_)
      if (const NodeId maker = graph_.value(value.value).producer; found.count(maker) == 0 || !has_call(maker, found))
        sum += seconds_of(value, chosen);
    return sum;
  }
  Chosen any(Random& random) const {
    Chosen chosen(choices_.size(), 0);
    for (NodeId n : chosen.ids()) chosen[n] = pick(random, choices_[n].size());
    return chosen;
  }
  // Changes one node at a time as long as that helps, and returns the final cost.
  double improved(Chosen chosen) {
    double best = price(chosen);
    for (bool better = true; better;) {
      better = false;
      for (NodeId n : chosen.ids()) {
        std::size_t kept = chosen[n];
        for (std::size_t c = 0; c < choices_[n].size(); ++c) {
          chosen[n] = c;
          const double now = price(chosen);
          if (now < best * (1 - 1e-12)) best = now, kept = c, better = true;
        }
        chosen[n] = kept;
      }
    }
    return best;
  }
  double best() {
    Chosen chosen(choices_.size(), 0);
    double best = INFINITY;
    while (true) {
      best = std::min(best, price(chosen));
      int n = 0;
      for (; chosen.has(NodeId(n)) && ++chosen[NodeId(n)] == choices_[NodeId(n)].size(); ++n) chosen[NodeId(n)] = 0;
      if (!chosen.has(NodeId(n))) return best;
    }
  }

 private:
  using Axes = std::vector<Sharding>;

  bool is_view(NodeId n) const {
    const std::string& op = graph_.nodes[n].op->name;
    return op == "reshape" || op == "transpose" || op == "broadcast";
  }
  // Nodes that no launch runs, and with values that every device has whole.
  std::set<NodeId> found_whole(const Chosen& chosen) const {
    std::set<NodeId> found;
    for (NodeId n : chosen.ids()) {
      const Node& node = graph_.nodes[n];
      const Axes& axes = choices_[n][chosen[n]];
      const bool whole = std::all_of(axes.begin(), axes.end(), [](const Sharding& axis) { return axis.out[0] == B(); });
      const bool made = node.op->name == "constant" || node.op->name == "iota" ||
                        (is_view(n) && found.count(maker_of(n)) > 0) || computed_at_load(n, found);
      if (whole && made) found.insert(n);
    }
    return found;
  }
  NodeId maker_of(NodeId view) const { return graph_.value(graph_.nodes[view].inputs[0]).producer; }
  bool computed_at_load(NodeId n, const std::set<NodeId>& found) const {
    const Node& node = graph_.nodes[n];
    if (!constants_at_load_ || node.inputs.empty() || is_view(n)) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId in) { return found.count(graph_.value(in).producer) > 0; });
  }
  // True if the value comes from a call, through views.
  bool has_call(NodeId n, const std::set<NodeId>& found) const {
    return is_view(n) ? has_call(maker_of(n), found) : computed_at_load(n, found);
  }

  struct Priced {
    ValueId value;
    std::set<NodeId> nodes;
    std::map<std::size_t, double> known;  // by the choices of those nodes
  };

  static Layout layout_of(const Axes& axes, bool out, std::size_t index) {
    Layout layout;
    for (const Sharding& one : axes) layout.push_back(out ? one.out[index] : one.in[index]);
    return layout;
  }

  bool allowed(NodeId n, const Axes& axes) const {
    const Node& node = graph_.nodes[n];
    if (auto fixed = graph_.value(node.outputs[0]).layout; fixed && *fixed != layout_of(axes, true, 0)) return false;
    for (const Variable& variable : graph_.variables)
      if (variable.read == node.outputs[0] && variable.stored && *variable.stored != layout_of(axes, true, 0))
        return false;
    for (const Sharding& axis : axes)
      for (std::size_t k = 0; k < axis.in.size(); ++k)
        if (axis.in[k] == P() && is_product(node, k) && !can_be_dense(node.inputs[k])) return false;
    return true;
  }

  const Node& maker(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  // True if some layout makes sums of this value with parts that are sums themselves, not one element and zeros.
  bool can_be_dense(ValueId value) const {
    const Node& node = maker(value);
    const std::string& op = node.op->name;
    if (op == "matmul" && graph_.type(node.inputs[0]).shape[1] > 1) return true;
    if (op == "reduce_sum" && graph_.type(node.inputs[0]).count() > graph_.type(value).count()) return true;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (op == "relu" || (op == "gather" && k == 1)) continue;
      if (can_be_dense(node.inputs[k])) return true;
    }
    return false;
  }
  bool is_constant(ValueId value) const {
    const Node& node = maker(value);
    const std::string& op = node.op->name;
    return op == "constant" ||
           ((op == "reshape" || op == "transpose" || op == "broadcast") && is_constant(node.inputs[0]));
  }
  bool is_product(const Node& node, std::size_t operand) const {
    return (node.op->name == "mul" || node.op->name == "matmul") && !is_constant(node.inputs[1 - operand]);
  }

  // True if sums of the value may reach such a product through ops that pass them.
  bool meets_product(ValueId value) const {
    for (const Node& node : graph_.nodes)
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        if (node.inputs[k] != value || node.op->name == "relu" || (node.op->name == "gather" && k == 1)) continue;
        if (is_product(node, k) || meets_product(node.outputs[0])) return true;
      }
    return false;
  }

  // A product, and an op before one, passes sums if one operand's sums are dense. Sums that can never be dense pass
  // too, but not through a product with a factor that may not be finite.
  bool sound(const Chosen& chosen) const {
    std::vector<bool> dense(graph_.values.size(), false);
    for (NodeId n : chosen.ids()) {
      const Node& node = graph_.nodes[n];
      const Axes& axes = choices_[n][chosen[n]];
      bool all_dense = true;
      std::map<std::set<std::size_t>, std::set<std::size_t>> passes;  // the axes on which these operands are sums
      for (std::size_t a = 0; a < axes.size(); ++a) {
        std::set<std::size_t> sums;
        for (std::size_t k = 0; k < axes[a].in.size(); ++k)
          if (axes[a].in[k] == P()) sums.insert(k);
        if (!sums.empty()) passes[sums].insert(a);
        else if (axes[a].out[0] == P() && node.op->name == "gather") all_dense = false;
      }
      for (const auto& [operands, on] : passes) {
        bool can = false, is = false;
        for (std::size_t k : operands) {
          const ValueId value = node.inputs[k];
          const Axes& made = choices_[graph_.value(value).producer][chosen[graph_.value(value).producer]];
          can = can || can_be_dense(value);
          is = is || (dense[static_cast<std::size_t>(value.index)] &&
                      std::all_of(on.begin(), on.end(), [&](std::size_t a) { return made[a].out[0] == P(); }));
        }
        if (can && !is && (is_product(node, *operands.begin()) || meets_product(node.outputs[0]))) return false;
        all_dense = all_dense && is;
      }
      dense[static_cast<std::size_t>(node.outputs[0].index)] = all_dense;
    }
    return true;
  }

  // Seconds of the slowest device.
  double compute_seconds(NodeId n, const Axes& axes) const {
    const Node& node = graph_.nodes[n];
    for (const char* view : {"reshape", "transpose", "broadcast", "variable", "constant", "iota"})
      if (node.op->name == view) return 0;
    double slowest = 0;
    for (int device = 0; device < mesh_.size(); ++device) {
      std::vector<TensorType> in, out;
      auto part = [&](ValueId value, const Layout& layout) {
        return TensorType{graph_.type(value).dtype,
                          shape_of(local_box(graph_.type(value).shape, mesh_, layout, device))};
      };
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        in.push_back(part(node.inputs[i], layout_of(axes, false, i)));
      out.push_back(part(node.outputs[0], layout_of(axes, true, 0)));
      Cost cost = cost_of(*node.op, in, out, node.attrs);
      slowest = std::max(slowest, costs_.seconds(cost));
    }
    return slowest;
  }

  Priced priced(ValueId value) const {
    Priced out{value, {graph_.value(value).producer}, {}};
    for (NodeId n : graph_.nodes.ids())
      for (ValueId in : graph_.nodes[n].inputs)
        if (in == value) out.nodes.insert(n);
    for (const Variable& variable : graph_.variables)
      if (variable.updated == value) out.nodes.insert(graph_.value(variable.read).producer);
    return out;
  }

  double seconds_of(Priced& priced, const ById<NodeId, std::size_t>& chosen) {
    std::size_t cell = 0;
    for (NodeId n : priced.nodes) cell = cell * choices_[n].size() + chosen[n];
    auto [seen, fresh] = priced.known.try_emplace(cell, 0);
    double& known = seen->second;
    if (!fresh) return known;
    auto made = [&](ValueId value) {
      NodeId n = graph_.value(value).producer;
      return layout_of(choices_[n][chosen[n]], true, 0);
    };
    Layout from = made(priced.value);
    std::set<Layout> targets;
    for (NodeId n : priced.nodes)
      for (std::size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i)
        if (graph_.nodes[n].inputs[i] == priced.value) targets.insert(layout_of(choices_[n][chosen[n]], false, i));
    for (const Output& output : graph_.outputs)
      if (output.value == priced.value) targets.insert(output.layout ? *output.layout : Layout(mesh_.axes.size(), B()));
    for (const Variable& variable : graph_.variables)
      if (variable.updated == priced.value) targets.insert(made(variable.read));  // back to its stored layout
    targets.erase(from);
    std::set<Sbp> partials;
    for (Sbp entry : from) partials.insert(entry);
    for (const Layout& target : targets) partials.insert(target.begin(), target.end());
    std::erase_if(partials, [](Sbp entry) { return !entry.is_partial(); });
    const TensorType& type = graph_.type(priced.value);
    auto at = ways_.try_emplace({print(type), partials}, type, mesh_, partials, costs_).first;
    return known = at->second.cheapest(from, targets);
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const CostTable& costs_;
  const bool constants_at_load_;
  ById<NodeId, std::vector<Axes>> choices_;
  ById<NodeId, std::vector<double>> compute_;
  std::vector<Priced> values_;
  std::map<std::pair<std::string, std::set<Sbp>>, testing::TransitionTrees> ways_;
};

LayoutSearchResult searched(const Graph& graph, const CostTable& costs, const SearchLimits& limits) {
  Choices choices;
  for (NodeId n : graph.nodes.ids()) choices.push_back(choices_of(graph, n, costs));
  TransitionCostCache prices(costs);
  return search_layouts(graph, choices, prices, limits);
}

enum class Constants { few, at_load, in_launches };

void expect_optimal_choice(const std::vector<const char*>& meshes, int graphs, std::size_t max_nodes,
                           bool picks = false, Constants constants = Constants::few) {
  std::uint64_t seed = base_seed();
  std::printf("KAREZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  int tried = 0;
  std::ptrdiff_t distributed = 0, marked = 0;
  for (int done = 0; done < graphs; ++tried) {
    Random random(seed * 100000 + static_cast<std::uint64_t>(tried));
    Mesh mesh = Mesh::parse(meshes[pick(random, meshes.size())]);
    Graph graph = random_graph(random, mesh, max_nodes - pick(random, 3), picks, constants != Constants::few);
    CostTable costs = random_costs(random);
    BruteForce brute(graph, costs, constants != Constants::in_launches);
    if (brute.count() == 0 || brute.count() > 100000)
      continue;  // a stored layout that is illegal for its shape; too many choices to enumerate
    double best = brute.best();
    if (!std::isfinite(best)) continue;  // no choice makes the fixed sum
    ++done;
    Compilation c = testing::compilation(graph);
    c.options.costs = costs;
    if (constants == Constants::in_launches) c.options.off = {"hoist"};
    run_passes(c, {"shard"});
    marked += std::count_if(c.graph.nodes.begin(), c.graph.nodes.end(), [](const Node& node) { return node.setup; });
    std::string what = cat("seed ", seed, ", case ", tried, " on ", print(mesh), "\n", print(c.graph), costs.print());
    ASSERT_TRUE(c.optimal) << what;
    ASSERT_NEAR(c.cost, best, 1e-9 * best + 1e-18) << what;
    ASSERT_LE(c.cost_bound, best * (1 + 1e-9)) << what;
    for (const Value& value : c.graph.values) distributed += *value.layout != broadcast_layout(mesh);
  }
  EXPECT_GT(distributed, graphs / 2);  // otherwise the graphs prove nothing
  if (constants == Constants::at_load) { EXPECT_GT(marked, graphs / 2); }
  if (constants == Constants::in_launches) { EXPECT_EQ(marked, 0); }
}

TEST(ShardOptimality, OnOneAxisTheChoiceIsTheBestOfAll) { expect_optimal_choice({"a=2", "a=3", "a=4"}, 200, 7); }
TEST(ShardOptimality, WithMaskedSumsTheChoiceIsTheBestOfAll) { expect_optimal_choice({"a=2", "a=3"}, 200, 7, true); }
TEST(ShardOptimality, WithMaskedSumsOnTwoAxesTheChoiceIsTheBestOfAll) {
  expect_optimal_choice({"a=2,b=2"}, 60, 5, true);
}
TEST(ShardOptimality, WithConstantsComputedAtLoadTheChoiceIsTheBestOfAll) {
  expect_optimal_choice({"a=2", "a=3"}, 200, 7, false, Constants::at_load);
}
TEST(ShardOptimality, WithConstantsAtLoadOnTwoAxesTheChoiceIsTheBestOfAll) {
  expect_optimal_choice({"a=2,b=2"}, 60, 5, false, Constants::at_load);
}
TEST(ShardOptimality, WithConstantsComputedInEveryLaunchTheChoiceIsTheBestOfAll) {
  expect_optimal_choice({"a=2", "a=3"}, 100, 7, false, Constants::in_launches);
}
TEST(ShardOptimality, OnTwoAxesTheChoiceIsTheBestOfAll) { expect_optimal_choice({"a=2,b=2"}, 100, 4); }

// The search's tables, evaluated for random choices.
TEST(ShardOptimality, TablesHaveTheTrueCostOfEveryChoice) {
  const std::uint64_t seed = base_seed();
  std::printf("KAREZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  int sound = 0;
  for (int tried = 0; tried < 60; ++tried) {
    Random random(seed * 104729 + static_cast<std::uint64_t>(tried));
    const Mesh mesh = Mesh::parse(pick(random, 2) ? "a=2,b=2" : "a=4");
    const Graph graph = random_graph(random, mesh, 5 + pick(random, 6), tried % 2 != 0);
    const CostTable costs = random_costs(random);
    BruteForce brute(graph, costs);
    if (brute.count() == 0) continue;
    Choices choices;
    for (NodeId n : graph.nodes.ids()) choices.push_back(choices_of(graph, n, costs));
    TransitionCostCache prices(costs);
    const LayoutProblem free = layout_problem(graph, choices, prices, ChainOverflow::free),
                        dear = layout_problem(graph, choices, prices, ChainOverflow::forbidden);
    for (int round = 0; round < 20; ++round) {
      const auto chosen = brute.any(random);
      ById<NodeId, int> numbers;
      for (NodeId n : chosen.ids()) numbers.push_back(static_cast<int>(chosen[n]));
      const double exact = brute.price(chosen), rounding = 1e-9 * exact + 1e-18;
      const std::string what =
          cat("seed ", seed, ", case ", tried, " on ", print(mesh), "\n", print(graph), costs.print());
      if (!std::isfinite(exact)) {
        ASSERT_FALSE(std::isfinite(assignment_cost(graph, choices, numbers, prices))) << what;
        continue;
      }
      ++sound;
      ASSERT_NEAR(assignment_cost(graph, choices, numbers, prices), exact, rounding) << what;
      ASSERT_LE(cost_of_choices(free, choices, numbers), exact + rounding) << what;
      ASSERT_GE(cost_of_choices(dear, choices, numbers), exact - rounding) << what;
      if (free.inexact_values == 0) { ASSERT_NEAR(cost_of_choices(free, choices, numbers), exact, rounding) << what; }
    }
  }
  EXPECT_GT(sound, 600);
}

// With tables too small for these programs, so that all parts of the search run.
TEST(ShardOptimality, OnTwoAxesTheSearchIsSoundAndNearlyAlwaysFindsTheBest) {
  const int graphs = std::getenv("KAREZ_ALL") ? 3000 : 300;
  const std::uint64_t seed =
      base_seed() + 1;  // with 2, some reduced problems are solved exactly, and a choice outside of them is better
  std::printf("KAREZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  int found = 0, proven = 0;
  for (int done = 0, tried = 0; done < graphs; ++tried) {
    Random random(seed * 1000003 + static_cast<std::uint64_t>(tried));
    const Mesh mesh = Mesh::parse(pick(random, 2) ? "a=2,b=2" : "a=3,b=2");
    const Graph graph = random_graph(random, mesh, 3 + pick(random, 3));
    const CostTable costs = random_costs(random);
    BruteForce brute(graph, costs);
    if (brute.count() == 0 || brute.count() > 60000) continue;
    const double best = brute.best(), rounding = 1e-11 * best + 1e-18;
    if (!std::isfinite(best)) continue;
    ++done;
    const LayoutSearchResult made = searched(graph, costs,
                                             {.passes = 1 + static_cast<int>(pick(random, 4)),
                                              .rounds = 1 + static_cast<int>(pick(random, 2)),
                                              .reduced_problems = static_cast<int>(pick(random, 12)),
                                              .axis_by_axis = pick(random, 3) == 0,
                                              .table_cells = 1 + pick(random, 30),
                                              .cheap_cells = 0});
    const std::string what =
        cat("seed ", seed, ", case ", tried, " on ", print(mesh), "\n", print(graph), costs.print());
    ASSERT_LE(made.bound, best + rounding) << what;
    ASSERT_GE(made.cost, best - rounding) << what;
    if (made.optimal) { ASSERT_NEAR(made.cost, best, rounding) << what; }
    found += made.cost <= best + rounding;
    proven += made.optimal;
  }
  std::printf("of %d: best found %d, proven %d\n", graphs, found, proven);
  EXPECT_GE(found, 97 * graphs / 100);
  if (graphs == 3000) { EXPECT_LT(proven, graphs); }  // otherwise the tables were not too small
}

// Programs for which each step of the search matters: with tables too small for the whole problem it finds the same as
// with large ones.
TEST(ShardOptimality, ReducedProblemsAxesAndChainOverflowEachFindTheBest) {
  struct Case {
    const char* axes;
    std::uint64_t seed;
    std::size_t nodes;
    SearchLimits limits;
    double best;  // seconds
  };
  const SearchLimits reduced_problems{
      .passes = 2, .rounds = 4, .reduced_problems = 8, .axis_by_axis = false, .table_cells = 256},
      axes{.passes = 2, .rounds = 4, .reduced_problems = 0, .axis_by_axis = true, .table_cells = 256};
  for (const Case& one :
       {Case{"a=2,b=2", 29, 12, reduced_problems, 1.017408e-06}, Case{"a=2,b=2", 29, 12, axes, 1.017408e-06},
        Case{"a=2,b=2,c=2", 3, 8, reduced_problems, 1.060264e-06}}) {
    Random random(7919 + one.seed);
    const Mesh mesh = Mesh::parse(one.axes);
    const Graph graph = random_graph(random, mesh, one.nodes - pick(random, 4));
    const CostTable costs = random_costs(random);
    const LayoutSearchResult made = searched(graph, costs, one.limits);
    const std::string what = cat(one.axes, ", case ", one.seed, "\n", print(graph), costs.print());
    EXPECT_NEAR(made.cost, one.best, 1e-6 * one.best) << what;
    EXPECT_LE(made.bound, one.best * (1 + 1e-6)) << what;
    EXPECT_LE(searched(graph, costs, {}).cost, one.best * (1 + 1e-6)) << what;
  }
}

// Programs too large for enumeration: no choice found at random or by small changes is cheaper than the bound.
void expect_no_cheaper_than_bound(const char* axes, int graphs, int each, std::size_t max_nodes) {
  const std::uint64_t seed = base_seed();
  std::printf("KAREZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
  int reached = 0;
  for (int tried = 0, done = 0; done < graphs; ++tried) {
    Random random(seed * 7919 + static_cast<std::uint64_t>(tried));
    const Mesh mesh = Mesh::parse(axes);
    const Graph graph = random_graph(random, mesh, max_nodes - pick(random, 4));
    const CostTable costs = random_costs(random);
    BruteForce brute(graph, costs);
    if (brute.count() < 1e6) continue;
    ++done;
    const LayoutSearchResult made = searched(graph, costs,
                                             {.passes = 4 + static_cast<int>(pick(random, 20)),
                                              .table_cells = pick(random, 2) ? std::size_t{64} : std::size_t{1} << 20});
    const std::string what = cat("seed ", seed, ", case ", tried, "\n", print(graph), costs.print());
    bool met = false;
    for (int k = 0; k < each; ++k) {
      auto chosen = brute.any(random);
      const double price = k % 50 == 0 ? brute.improved(std::move(chosen)) : brute.price(chosen);
      ASSERT_GE(price, made.bound * (1 - 1e-11)) << what;
      met |= price <= made.cost * (1 + 1e-9);
      if (made.optimal) { ASSERT_GE(price, made.cost * (1 - 1e-11)) << what; }
    }
    reached += met;
  }
  std::printf("%d graphs; random choices reached the planner's cost in %d\n", graphs, reached);
  EXPECT_GT(reached, graphs / 4);  // otherwise random choices do not test the bound
}

TEST(ShardOptimality, NoChoiceOfTenThousandIsCheaperThanTheBound) {
  expect_no_cheaper_than_bound("a=2,b=2", 20, 500, 12);
}
// On three axes, values with two or more consumers have costs axis by axis.
TEST(ShardOptimality, OnThreeAxesNoChoiceIsCheaperThanTheBound) {
  expect_no_cheaper_than_bound("a=2,b=2,c=2", 8, 100, 7);
}

Graph searched_graph(Random& random, const Mesh& mesh, int kind) {
  if (kind == 0) return random_graph(random, mesh, mesh.axes.size() > 2 ? 5 : 9);
  const std::int64_t sizes[] = {2, 6, 32, 256};
  auto size = [&] { return sizes[pick(random, 4)]; };
  if (kind == 1) return testing::mlp_step(mesh, {size(), size(), size()}, size());
  Graph graph;
  graph.meshes = {mesh};
  Builder b(graph, testing::table());
  const std::int64_t rows = size(), first = size(), inner = size();
  const Sbp entries[] = {S(0), S(1), B()};
  const ValueId h = build::matmul(b, build::input(b, "x", {DType::f32, {rows, first}}),
                                  testing::parameter(b, "w", {DType::f32, {first, inner}}));
  for (std::size_t k = 3 + pick(random, mesh.axes.size() > 2 ? 2 : 6); k > 0; --k) {
    const ValueId w = testing::parameter(b, cat("w", k), {DType::f32, {inner, size()}});
    if (inner > 2 && graph.type(w).shape[1] > 6 && pick(random, 2)) {
      graph.variables.back().stored.emplace();
      for (std::size_t a = 0; a < mesh.axes.size(); ++a)
        graph.variables.back().stored->push_back(entries[pick(random, 3)]);
    }
    graph.outputs.push_back({cat("y", k), build::matmul(b, h, w)});
  }
  return graph;
}

// The search with low limits, on programs that were selected because each of its parts matters there: the sums of the
// costs that it finds and of the bounds that it proves, each relative to the cost of replicating everything. A change
// of the search updates these numbers, with a reason if they get worse.
TEST(ShardOptimality, WithLowLimitsItReachesThePinnedCostsAndBounds) {
  const char* meshes[] = {"a=2,b=2", "a=3,b=2", "a=2,b=2", "a=2,b=2,c=2"};
  double found = 0, proven = 0;
  int optimal = 0;
  for (const std::uint64_t seed :
       {6u, 8u, 36u, 85u, 89u, 107u, 112u, 135u, 232u, 246u, 259u, 263u, 340u, 376u, 388u, 390u, 439u, 450u, 455u}) {
    Random random(31337 + seed);
    const Mesh mesh = Mesh::parse(meshes[seed % 4]);
    int kind = static_cast<int>(seed / 4 % 3);
    if (kind == 1 && mesh.axes.size() > 2) kind = 0;
    Graph graph = searched_graph(random, mesh, kind);
    const CostTable costs = random_costs(random);
    Builder b(graph, testing::table());  // a part that no choice changes
    const ValueId fixed = build::input(b, "fixed", {DType::f32, {16, 16}});
    graph.value(fixed).layout = Layout(mesh.axes.size(), S(0));
    graph.outputs.push_back({"fixed", fixed});
    const LayoutSearchResult made =
        searched(graph, costs,
                 {.passes = 1 + static_cast<int>(pick(random, 8)),
                  .rounds = 1 + static_cast<int>(pick(random, 3)),
                  .reduced_problems = static_cast<int>(pick(random, 2) * pick(random, 10)),
                  .axis_by_axis = pick(random, 3) > 0,
                  .table_cells = 2 + (pick(random, 2) ? pick(random, 60) : pick(random, 2000)),
                  .cheap_cells = pick(random, 2) * 300});
    const LayoutSearchResult best = searched(graph, costs, {});
    EXPECT_LE(made.bound, best.cost * (1 + 1e-9)) << seed;
    if (made.optimal) { EXPECT_LE(made.cost, best.cost * (1 + 1e-9)) << seed; }
    Choices choices;
    for (NodeId n : graph.nodes.ids()) choices.push_back(choices_of(graph, n, costs));
    TransitionCostCache prices(costs);
    const double first = assignment_cost(graph, choices, ById<NodeId, int>(choices.size(), 0), prices);
    found += made.cost / first, proven += made.bound / first, optimal += made.optimal;
  }
  EXPECT_NEAR(found, 12.831584735637643, 1e-8);
  EXPECT_NEAR(proven, 12.137465114300664, 1e-8);
  EXPECT_EQ(optimal, 2);
}

}  // namespace
}  // namespace karez::passes
