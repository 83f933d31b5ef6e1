// Tests that compare the candidates for recomputation with an independent count of bytes, on random programs.
#include "karez/passes/memory_limit/recompute_candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "karez/base/text.h"
#include "karez/passes/logical/recompute.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using Random = std::mt19937_64;
using Names = std::vector<std::string>;

std::size_t below(Random& random, std::size_t count) { return random() % count; }

// Builds consecutive blocks, with windows and values of small types, and gradients that read some of the blocks'
// values. If `feeds` is true, each input is in a separate module.
Graph random_blocks(Random& random, const Names& names, bool feeds) {
  Graph graph;
  Builder b(graph, testing::table());
  ValueId h = build::input(b, "x", {DType::f32, {4, 6}});
  std::vector<ValueId> values = {h};
  for (const std::string& name : names) {
    for (std::size_t k = 2 + below(random, 4); k > 0; --k) {
      b.path = below(random, 2) ? name : cat(name, below(random, 2) ? ".up" : ".down2");
      switch (below(random, 6)) {
        case 0: h = build::reshape(b, h, {graph.type(h).shape[1], graph.type(h).shape[0]}); break;
        case 1: h = build::cast(b, h, graph.type(h).dtype == DType::f32 ? DType::bf16 : DType::f32); break;
        case 2:
          if (feeds) b.path = cat("feed", values.size());
          values.push_back(build::input(b, cat("more", values.size()), {DType::f32, {4, 6}}));
          break;
        case 3: values.push_back(build::full(b, DType::f32, {3}, 2)); break;
        default: h = below(random, 2) ? build::tanh(b, h) : build::exp(b, h);
      }
      values.push_back(h);
    }
  }
  std::shuffle(values.begin(), values.end(), random);
  values.resize(3 * values.size() / 4);
  for (std::size_t k = 0; k < values.size(); ++k) {
    b.path = k % 2 ? "grad" : cat(names[below(random, names.size())], ".grad");
    graph.outputs.push_back({cat("y", k), build::exp(b, values[k])});
  }
  return graph;
}

bool is_gradient(const Node& node) { return node.path == "grad" || node.path.ends_with(".grad"); }

// Returns the bytes of the values that calls compute before the first gradient node and that this node or a later one
// reads, directly or through windows.
std::int64_t activation_bytes(const Graph& graph) {
  std::size_t first_gradient = graph.nodes.size();
  std::vector<const Node*> nodes;
  for (const Node& node : graph.nodes) {
    if (is_gradient(node)) first_gradient = std::min(first_gradient, nodes.size());
    nodes.push_back(&node);
  }
  std::int64_t bytes = 0;
  for (std::size_t n = 0; n < first_gradient; ++n) {
    if (nodes[n]->op->role != Role::compute) continue;
    for (ValueId out : nodes[n]->outputs) {
      std::vector<ValueId> aliases = {out};  // the value and windows on it
      bool is_read_late = false;
      for (std::size_t m = n + 1; m < nodes.size(); ++m)
        for (ValueId in : nodes[m]->inputs)
          if (std::find(aliases.begin(), aliases.end(), in) != aliases.end()) {
            if (nodes[m]->op->role == Role::window) aliases.push_back(nodes[m]->outputs[0]);
            else is_read_late = is_read_late || m >= first_gradient;
          }
      if (is_read_late) bytes += count_of(graph.type(out).shape) * (graph.type(out).dtype == DType::bf16 ? 2 : 4);
    }
  }
  return bytes;
}

// Returns the expected lists. Each adds a quarter of the modules whose recomputation frees bytes, largest first.
std::vector<Names> expected(const Graph& graph, const Names& modules, const Names& already) {
  std::vector<std::pair<std::int64_t, std::string>> freed;
  for (const std::string& module : modules) {
    Names recomputed = already;
    recomputed.push_back(module);
    const std::int64_t freed_bytes =
        activation_bytes(recompute(graph, already)) - activation_bytes(recompute(graph, recomputed));
    if (freed_bytes > 0) freed.emplace_back(freed_bytes, module);
  }
  std::stable_sort(freed.begin(), freed.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Names> lists;
  for (double share : {0.25, 0.5, 0.75, 1.0}) {
    Names list = already;
    for (std::size_t i = 0; static_cast<double>(i) < share * static_cast<double>(freed.size()); ++i)
      list.push_back(freed[i].second);
    if (list.size() > already.size() && (lists.empty() || lists.back() != list)) lists.push_back(list);
  }
  return lists;
}

TEST(RecomputeCandidates, CandidatesAreNumberedModulesWhoseRecomputationFreesValues) {
  const Graph graph = parse_graph(R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = exp(%0) : f32[2, 4] in "stem"
  %2 = tanh(%1) : f32[2, 4] in "block0.up"
  %3 = tanh(%2) : f32[2, 4] in "block0.up"
  %4 = sigmoid(%3) : f32[2, 4] in "block0.down"
  %5 = tanh(%4) : f32[2, 4] in "block1.up"
  %6 = tanh(%5) : f32[2, 4] in "block1.up"
  %7 = sigmoid(%6) : f32[2, 4] in "block1.down"
  %8 = mul(%7, %6) : f32[2, 4] in "block1.grad"
  %9 = mul(%8, %5) : f32[2, 4] in "block1.grad"
  %10 = mul(%9, %3) : f32[2, 4] in "block0.grad"
  %11 = mul(%10, %2) : f32[2, 4] in "block0.grad"
  output "y" %11
}
)",
                                  testing::table());
  // Recomputing the last block would free nothing: its copies would be live as long as its values.
  const std::vector<std::vector<std::string>> want = {{"block0"}};
  EXPECT_EQ(recompute_candidates(graph, {}), want);
  const std::vector<std::string> already = {"block1"};
  EXPECT_EQ(recompute_candidates(graph, already), (std::vector<std::vector<std::string>>{{"block1", "block0"}}));
}

TEST(RecomputeCandidates, CandidatesAreSortedByFreedBytesAndGrowByAQuarter) {
  struct Case {
    Names blocks, modules;  // `modules` has the names that repeat
  };
  const Case cases[] = {
      {{"stem", "block7", "block8", "block9", "block10", "block11", "block12"},
       {"block7", "block8", "block9", "block10", "block11", "block12"}},
      {{"net.block9", "net.block10", "net.block100", "head"}, {"net.block9", "net.block10", "net.block100"}},
      {{"blocks.0.a", "blocks.1.a", "blocks.2.a"}, {"blocks.0", "blocks.1", "blocks.2"}},
      {{"first", "second", "third", "fourth", "fifth", "sixth", "last"},
       {"first", "second", "third", "fourth", "fifth", "sixth", "last"}},
  };
  std::map<std::size_t, int> lists;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Case& test_case = cases[seed % 4];
    const Graph graph = random_blocks(random, test_case.blocks, seed % 4 == 3);
    // A block that has only windows and inputs is not a module.
    Names modules;
    for (const std::string& module : test_case.modules)
      for (const Node& node : graph.nodes)
        if (!is_gradient(node) && node.op->role == Role::compute &&
            (node.path == module || node.path.starts_with(module + "."))) {
          modules.push_back(module);
          break;
        }
    if (modules.size() < 2) continue;
    Names already;
    if (below(random, 3) == 0) already = {test_case.modules[below(random, test_case.modules.size())]};
    const auto expected_lists = expected(graph, modules, already);
    EXPECT_EQ(recompute_candidates(graph, already), expected_lists) << "seed " << seed << "\n" << print(graph);
    ++lists[expected_lists.size()];
  }
  EXPECT_GT(lists[4], 0);
  EXPECT_GT(lists[2], 5);
}

}  // namespace
}  // namespace karez::passes
