// Tests that compare transition trees with an exhaustive search over all layouts and all branch points.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/sbp/test_steps.h"
#include "karez/sbp/transition.h"

namespace karez::sbp {
namespace {

// All layouts that are reachable from one layout with the given kinds of Partial, and the costs of the cheapest paths
// between them, computed by the algorithm of Floyd and Warshall.
struct AllPaths {
  std::vector<Layout> layouts;
  std::vector<std::vector<double>> seconds;

  AllPaths(const TensorType& type, const Mesh& mesh, const Layout& from, const std::set<Sbp>& partials,
           const CostTable& costs)
      : layouts{from} {
    auto steps = [&](const Layout& layout) {
      auto out = steps_from(type, mesh, layout);
      std::erase_if(out, [&](const TransitionStep& step) {
        return step.to[step.axis].is_partial() && !partials.count(step.to[step.axis]);
      });
      return out;
    };
    for (std::size_t i = 0; i < layouts.size(); ++i)
      for (const TransitionStep& step : steps(layouts[i]))
        if (number(step.to) == layouts.size()) layouts.push_back(step.to);
    std::size_t n = layouts.size();
    seconds.assign(n, std::vector<double>(n, std::numeric_limits<double>::infinity()));
    for (std::size_t i = 0; i < n; ++i) {
      seconds[i][i] = 0;
      for (const TransitionStep& step : steps(layouts[i]))
        seconds[i][number(step.to)] = sbp::seconds(type, mesh, step, costs);
    }
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) seconds[i][j] = std::min(seconds[i][j], seconds[i][k] + seconds[k][j]);
  }
  std::size_t number(const Layout& layout) const {
    return static_cast<std::size_t>(std::find(layouts.begin(), layouts.end(), layout) - layouts.begin());
  }

  // A tree to at most three targets branches at most twice: at v and, below v, at w.
  double cheapest(const std::vector<Layout>& targets) const {
    std::vector<std::size_t> t;
    for (const Layout& target : targets) t.push_back(number(target));
    if (t.size() == 1) return seconds[0][t[0]];
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t v = 0; v < layouts.size(); ++v) {
      if (t.size() == 2) best = std::min(best, seconds[0][v] + seconds[v][t[0]] + seconds[v][t[1]]);
      if (t.size() == 3)
        for (std::size_t w = 0; w < layouts.size(); ++w)
          for (std::size_t branch_target = 0; branch_target < 3; ++branch_target)
            best = std::min(best, seconds[0][v] + seconds[v][t[branch_target]] + seconds[v][w] +
                                      seconds[w][t[(branch_target + 1) % 3]] + seconds[w][t[(branch_target + 2) % 3]]);
    }
    return best;
  }
};

// Returns the error in a tree; "" if there is none.
std::string error_in(const TransitionTree& tree, const TensorType& type, const Mesh& mesh, const Layout& from,
                     const std::vector<Layout>& targets, const CostTable& costs) {
  std::set<Layout> reached{from};
  double sum = 0;
  for (const TransitionStep& step : tree.steps) {
    if (!reached.count(step.from)) return cat(print(step.from), " is used before it exists");
    auto legal = steps_from(type, mesh, step.from);
    if (std::find(legal.begin(), legal.end(), step) == legal.end())
      return cat(print(step.from), " -> ", print(step.to), " is not legal");
    if (!reached.insert(step.to).second) return cat(print(step.to), " is produced twice");
    sum += seconds(type, mesh, step, costs);
  }
  for (const Layout& target : targets)
    if (!reached.count(target)) return cat(print(target), " is not reached");
  return std::abs(sum - tree.seconds) <= 1e-12 * sum ? "" : cat("the tree costs ", tree.seconds, ", its steps ", sum);
}

std::string print_steps(const TransitionTree& tree) {
  return join(tree.steps, "; ", [](const TransitionStep& s) {
    return cat(name_of(s.move), "@", s.axis, " ", print(s.from), "->", print(s.to));
  });
}

// Returns a layout that is up to `max_steps` random steps away from the given one.
Layout random_layout(const TensorType& type, const Mesh& mesh, Layout layout, std::uint64_t max_steps,
                     std::mt19937_64& random) {
  for (std::uint64_t steps = random() % (max_steps + 1); steps > 0; --steps) {
    auto next = steps_from(type, mesh, layout);
    layout = next[random() % next.size()].to;
  }
  return layout;
}

std::uint64_t base_seed() {
  const char* seed_text = std::getenv("KAREZ_SEED");
  return seed_text ? std::strtoull(seed_text, nullptr, 10) : 1;
}

TEST(TransitionTree, RandomTreesCostTheSameAsTheCheapestTreesOfAnExhaustiveSearch) {
  std::uint64_t seed = base_seed();
  for (std::uint64_t i = 0; i < 250; ++i) {
    std::mt19937_64 random(seed * 1000 + i);
    const char* meshes[] = {"a=2", "a=4", "a=1", "a=2,b=2", "a=2,b=3", "a=3,b=1", "a=4,b=2"};
    Mesh mesh = Mesh::parse(meshes[random() % 7]);
    TensorType type{random() % 3 == 0 ? DType::b8 : DType::f32, {}};
    for (std::uint64_t d = random() % 4; d > 0; --d) {
      std::int64_t sizes[] = {0, 1, 2, 3, 8, 64, 1000};
      type.shape.push_back(sizes[random() % 7]);
    }
    CostTable costs;
    double alphas[] = {0, 1e-6, 1e-3}, betas[] = {0, 1e-10, 1e-7};
    costs.link = {alphas[random() % 3], betas[random() % 3]};
    if (random() % 2) costs.axis_links = {{"b", {alphas[random() % 3], betas[random() % 3]}}};
    Layout from = random_layout(type, mesh, broadcast_layout(mesh), 4, random);
    std::vector<Layout> targets;
    for (std::uint64_t k = random() % 3 + 1; k > 0; --k) targets.push_back(random_layout(type, mesh, from, 5, random));
    std::set<Sbp> partials;
    for (const Layout& layout : targets) partials.insert(layout.begin(), layout.end());
    partials.insert(from.begin(), from.end());
    AllPaths paths(type, mesh, from, partials, costs);
    TransitionTree tree = transition_tree(type, mesh, from, targets, costs);
    std::string what = cat("seed ", seed, ", case ", i, ": ", print(type, mesh, from), " -> ",
                           join(targets, " ", [](const Layout& t) { return print(t); }), ": ", print_steps(tree));
    ASSERT_EQ(error_in(tree, type, mesh, from, targets, costs), "") << what;
    double best = paths.cheapest(targets);
    ASSERT_NEAR(tree.seconds, best, 1e-9 * best + 1e-18) << what;
    std::reverse(targets.begin(), targets.end());
    EXPECT_EQ(transition_tree(type, mesh, from, targets, costs).steps, tree.steps) << what;
  }
}

TEST(TransitionTree, ATableGivesTheSameTreesFromItsCache) {
  std::uint64_t seed = base_seed();
  for (std::uint64_t i = 0; i < 40; ++i) {
    std::mt19937_64 random(seed * 1000 + i);
    Mesh mesh = Mesh::parse(i % 2 ? "a=2,b=2" : "a=4");
    TensorType type{DType::f32, {64, i % 3 ? 1000 : 3}};
    TransitionTable table(type, mesh, CostTable{});
    for (int query = 0; query < 30; ++query) {  // one table for all queries, so that later ones use cached results
      Layout from = random_layout(type, mesh, broadcast_layout(mesh), 4, random);
      std::vector<Layout> targets;
      int set = 0, start = table.number(from);
      for (std::uint64_t k = random() % 5; k > 0; --k) targets.push_back(random_layout(type, mesh, from, 5, random));
      for (const Layout& target : targets) set = table.with(set, table.number(target));
      TransitionTree uncached = transition_tree(type, mesh, from, targets, CostTable{});
      ASSERT_EQ(table.tree(start, set).steps, uncached.steps) << "seed " << seed << ", case " << i << "." << query;
      ASSERT_EQ(table.seconds(start, set), uncached.seconds);
      ASSERT_EQ(table.seconds(start, set), uncached.seconds);  // the second call reads the cache
    }
  }
  TransitionTable table({DType::f32, {8}}, Mesh::parse("a=2"), CostTable{});
  const int broadcast = table.with(0, table.number({B()})), two_targets = table.with(broadcast, table.number({S(0)}));
  EXPECT_EQ(table.with(two_targets, table.number({B()})), two_targets) << "the target is already in the set";
  EXPECT_EQ(table.with(table.with(0, table.number({S(0)})), table.number({B()})), two_targets)
      << "the order of targets has no effect";
  EXPECT_THROW(table.number({S(1)}), Error);
  EXPECT_THROW(table.number({S(1)}), Error);  // a failed call leaves no entry
}

TEST(TransitionTree, APartialBecomesSplitAndBroadcastByOneAllReduceAndAFreeSlice) {
  TensorType type{DType::f32, {64, 64}};
  for (auto text : {"a=2", "a=4"}) {
    Mesh mesh = Mesh::parse(text);
    TransitionTree tree = transition_tree(type, mesh, {P()}, {{S(0)}, {B()}}, CostTable{});
    EXPECT_EQ(print_steps(tree), "all_reduce@0 (P(sum))->(B); slice@0 (B)->(S(0))");
    EXPECT_EQ(tree.seconds, transition_tree(type, mesh, {P()}, {{B()}}, CostTable{}).seconds);
  }
}

TEST(TransitionTree, WithoutNewTargetsTheTreeIsEmpty) {
  Mesh mesh = Mesh::parse("a=2");
  TensorType type{DType::f32, {8}};
  EXPECT_TRUE(transition_tree(type, mesh, {S(0)}, {}, CostTable{}).steps.empty());
  EXPECT_TRUE(transition_tree(type, mesh, {S(0)}, {{S(0)}, {S(0)}}, CostTable{}).steps.empty());
  Mesh single_device = Mesh::parse("");
  EXPECT_TRUE(transition_tree(type, single_device, {}, {{}}, CostTable{}).steps.empty());
}

TEST(TransitionTree, ManyTargetsShareSteps) {
  Mesh mesh = Mesh::parse("a=2,b=2");
  TensorType type{DType::f32, {64, 64}};
  std::vector<Layout> targets{{B(), B()}, {S(0), B()}, {B(), S(0)}, {S(0), S(1)}, {B(), B()}};
  TransitionTree tree = transition_tree(type, mesh, {P(), P()}, targets, CostTable{});
  EXPECT_EQ(error_in(tree, type, mesh, {P(), P()}, targets, CostTable{}), "");
  EXPECT_EQ(tree.seconds,
            transition_tree(type, mesh, {P(), P()}, {{B(), B()}}, CostTable{}).seconds);  // the other steps are slices
}

TEST(TransitionTree, TwoAxesReduceInTwoLevelsIfBytesAreExpensive) {
  Mesh mesh = Mesh::parse("host=2,local=4");
  CostTable costs;
  costs.axis_links = {{"host", {0, 1e-8}}, {"local", {0, 1e-10}}};
  TransitionTree tree = transition_tree({DType::f32, {1024, 64}}, mesh, {P(), P()}, {{B(), B()}}, costs);
  EXPECT_EQ(print_steps(tree),
            "reduce_scatter@1 (P(sum), P(sum))->(P(sum), S(0)); all_reduce@0 (P(sum), S(0))->(B, S(0)); all_gather@1 "
            "(B, S(0))->(B, B)");
}

TEST(TransitionTree, ThePathWithTheFewestStepsIsChosenAmongEqualCosts) {
  Mesh mesh = Mesh::parse("a=2,b=2");
  CostTable zero_costs;
  zero_costs.link = {0, 0};
  zero_costs.memory_bytes = std::numeric_limits<double>::infinity();
  TensorType type{DType::f32, {8, 8}};
  EXPECT_EQ(print_steps(transition_tree(type, mesh, {P(), B()}, {{S(0), B()}}, zero_costs)),
            "reduce_scatter@0 (P(sum), B)->(S(0), B)");
  EXPECT_EQ(print_steps(transition_tree(type, mesh, {P(), P()}, {{B(), B()}}, zero_costs)),
            "all_reduce@0 (P(sum), P(sum))->(B, P(sum)); all_reduce@1 (B, P(sum))->(B, B)");
  EXPECT_EQ(transition_tree(type, mesh, {S(0), S(0)}, {{B(), S(0)}}, zero_costs).steps.size(), 3u);
}

// From each layout, the tree takes a step on a cheapest path. Among several such paths it takes one with the fewest
// steps, and among these the one whose next layout is first in order.
TEST(TransitionTree, TheFirstLayoutIsChosenAmongEqualCostsAndSteps) {
  CostTable costs;
  costs.link = {1, 0};
  costs.memory_bytes = std::numeric_limits<double>::infinity();
  int choices = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    std::mt19937_64 random(base_seed() * 1000 + i);
    const Mesh mesh = Mesh::parse(i % 2 ? "a=2,b=2" : "a=2,b=2,c=2");
    const TensorType type{DType::f32, std::vector<std::int64_t>(1 + i % 3, 8)};
    const Layout from = random_layout(type, mesh, broadcast_layout(mesh), 6, random),
                 target = random_layout(type, mesh, from, 8, random);
    std::set<Sbp> partials(from.begin(), from.end());
    partials.insert(target.begin(), target.end());
    std::map<Layout, std::pair<double, int>> distance = {{target, {0, 0}}};  // seconds and steps to the target
    std::map<Layout, std::vector<TransitionStep>> steps;
    const AllPaths all(type, mesh, from, partials, costs);
    for (const Layout& layout : all.layouts)
      for (TransitionStep& step : steps_from(type, mesh, layout))
        if (std::find(all.layouts.begin(), all.layouts.end(), step.to) != all.layouts.end())
          steps[layout].push_back(std::move(step));
    for (bool changed = true; changed;) {
      changed = false;
      for (const Layout& layout : all.layouts)
        for (const TransitionStep& step : steps[layout])
          if (auto to = distance.find(step.to); to != distance.end()) {
            const std::pair new_cost(to->second.first + seconds(type, mesh, step, costs), to->second.second + 1);
            auto [entry, inserted] = distance.try_emplace(layout, new_cost);
            if (inserted || new_cost < entry->second) entry->second = new_cost, changed = true;
          }
    }
    std::vector<TransitionStep> expected;
    for (Layout layout = from; layout != target; layout = expected.back().to) {
      const TransitionStep* first = nullptr;
      for (const TransitionStep& step : steps[layout]) {
        const auto [rest, count] = distance.at(step.to);
        if (std::pair(rest + seconds(type, mesh, step, costs), count + 1) != distance.at(layout)) continue;
        choices += first != nullptr;
        if (first == nullptr || step.to < first->to) first = &step;
      }
      expected.push_back(*first);
    }
    TransitionTree tree = transition_tree(type, mesh, from, {target}, costs);
    ASSERT_EQ(print_steps(tree), print_steps({expected, 0})) << "case " << i;
  }
  EXPECT_GT(choices, 100);
}

// The element size decides whether messages or bytes dominate the cost.
TEST(TransitionTree, CostsUseTheSizeOfTheElementType) {
  const Mesh mesh = Mesh::parse("a=2,b=2");
  const CostTable costs;
  std::set<std::size_t> lengths;
  for (DType dtype : {DType::f32, DType::f64})
    for (std::int64_t count = 8; count < 100'000; count = count * 5 / 4) {
      const TensorType type{dtype, {count}};
      const TransitionTree tree = transition_tree(type, mesh, {P(), P()}, {{B(), B()}}, costs);
      const AllPaths paths(type, mesh, {P(), P()}, {P()}, costs);
      ASSERT_NEAR(tree.seconds, paths.cheapest({{B(), B()}}), 1e-9 * tree.seconds) << print(type);
      lengths.insert(tree.steps.size());
    }
  EXPECT_GE(lengths.size(), 2u);
}

TEST(TransitionTree, TooManyLayoutsAreAnError) {
  const TensorType type{DType::f32, std::vector<std::int64_t>(8, 1)};
  const Mesh seven = Mesh::parse("a=1,b=1,c=1,d=1,e=1,f=1,g=1");
  try {
    transition_tree(type, seven, broadcast_layout(seven), {Layout(7, S(0))}, CostTable{});
    FAIL();
  } catch (const Error& error) { EXPECT_NE(std::string(error.what()).find("has too many layouts"), std::string::npos); }
}

TEST(TransitionTree, APartialBecomesADifferentPartialThroughASplit) {
  Mesh mesh = Mesh::parse("a=2");
  TransitionTree tree = transition_tree({DType::f32, {8}}, mesh, {P()}, {{P(Reduce::max)}}, CostTable{});
  EXPECT_EQ(print_steps(tree), "reduce_scatter@0 (P(sum))->(S(0)); to_partial@0 (S(0))->(P(max))");
}

TEST(TransitionTree, MoreThanSixteenTargetsAreAnError) {
  Mesh mesh = Mesh::parse("a=2,b=2");
  std::vector<Layout> targets;
  for (Sbp a : {S(0), S(1), S(2), S(3), B()})
    for (Sbp b : {S(0), S(1), S(2), B()})
      if (targets.size() < 17) targets.push_back({a, b});
  try {
    transition_tree({DType::f32, {4, 4, 4, 4}}, mesh, {P(), P()}, targets, CostTable{});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "transition: 17 different targets; at most 16 are supported");
  }
}

TEST(TransitionTree, BadLayoutsAreErrors) {
  Mesh mesh = Mesh::parse("a=2");
  TensorType type{DType::f32, {8}};
  EXPECT_THROW(transition_tree(type, mesh, {S(1)}, {{B()}}, CostTable{}), Error);
  EXPECT_THROW(transition_tree(type, mesh, {B()}, {{B(), B()}}, CostTable{}), Error);
  EXPECT_THROW(transition_tree({DType::b8, {8}}, mesh, {B()}, {{P()}}, CostTable{}), Error);
}

}  // namespace
}  // namespace karez::sbp
