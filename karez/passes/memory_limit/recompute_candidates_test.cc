// The modules offered for recomputation, compared with a separate count of bytes for random programs.
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

// Consecutive blocks, with windows and small types between, then gradients that read some of the blocks' values.
// `feeds`: inputs have modules of their own.
Graph random_blocks(Random& random, const Names& names, bool feeds) {
  Graph graph;
  Builder b(graph, testing::table());
  ValueId h = build::input(b, "x", {DType::f32, {4, 6}});
  std::vector<ValueId> made = {h};
  for (const std::string& name : names) {
    for (std::size_t k = 2 + below(random, 4); k > 0; --k) {
      b.path = below(random, 2) ? name : cat(name, below(random, 2) ? ".up" : ".down2");
      switch (below(random, 6)) {
        case 0: h = build::reshape(b, h, {graph.type(h).shape[1], graph.type(h).shape[0]}); break;
        case 1: h = build::cast(b, h, graph.type(h).dtype == DType::f32 ? DType::bf16 : DType::f32); break;
        case 2:
          if (feeds) b.path = cat("feed", made.size());
          made.push_back(build::input(b, cat("more", made.size()), {DType::f32, {4, 6}}));
          break;
        case 3: made.push_back(build::full(b, DType::f32, {3}, 2)); break;
        default: h = below(random, 2) ? build::tanh(b, h) : build::exp(b, h);
      }
      made.push_back(h);
    }
  }
  std::shuffle(made.begin(), made.end(), random);
  made.resize(3 * made.size() / 4);
  for (std::size_t k = 0; k < made.size(); ++k) {
    b.path = k % 2 ? "grad" : cat(names[below(random, names.size())], ".grad");
    graph.outputs.push_back({cat("y", k), build::exp(b, made[k])});
  }
  return graph;
}

bool gradient(const Node& node) { return node.path == "grad" || node.path.ends_with(".grad"); }

// Bytes of the values that calls make before the first gradient and that a node from there on reads, also through
// windows.
std::int64_t bytes_over(const Graph& graph) {
  std::size_t first = graph.nodes.size();
  std::vector<const Node*> nodes;
  for (const Node& node : graph.nodes) {
    if (gradient(node)) first = std::min(first, nodes.size());
    nodes.push_back(&node);
  }
  std::int64_t bytes = 0;
  for (std::size_t n = 0; n < first; ++n) {
    if (nodes[n]->op->role != Role::compute) continue;
    for (ValueId out : nodes[n]->outputs) {
      std::vector<ValueId> seen = {out};  // and windows on it
      bool late = false;
      for (std::size_t m = n + 1; m < nodes.size(); ++m)
        for (ValueId in : nodes[m]->inputs)
          if (std::find(seen.begin(), seen.end(), in) != seen.end()) {
            if (nodes[m]->op->role == Role::window) seen.push_back(nodes[m]->outputs[0]);
            else late = late || m >= first;
          }
      if (late) bytes += count_of(graph.type(out).shape) * (graph.type(out).dtype == DType::bf16 ? 2 : 4);
    }
  }
  return bytes;
}

// Every quarter of the modules that free something, the largest first.
std::vector<Names> expected(const Graph& graph, const Names& modules, const Names& already) {
  std::vector<std::pair<std::int64_t, std::string>> freed;
  for (const std::string& module : modules) {
    Names with = already;
    with.push_back(module);
    const std::int64_t less = bytes_over(recompute(graph, already)) - bytes_over(recompute(graph, with));
    if (less > 0) freed.emplace_back(less, module);
  }
  std::stable_sort(freed.begin(), freed.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Names> out;
  for (double share : {0.25, 0.5, 0.75, 1.0}) {
    Names list = already;
    for (std::size_t i = 0; static_cast<double>(i) < share * static_cast<double>(freed.size()); ++i)
      list.push_back(freed[i].second);
    if (list.size() > already.size() && (out.empty() || out.back() != list)) out.push_back(list);
  }
  return out;
}

TEST(RecomputeCandidates, CandidatesAreSortedByFreedBytesAndGrowByAQuarter) {
  struct Case {
    Names blocks, modules;  // all names; those that repeat
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
    const Case& one = cases[seed % 4];
    const Graph graph = random_blocks(random, one.blocks, seed % 4 == 3);
    // A block of windows and inputs alone is not a module.
    Names modules;
    for (const std::string& module : one.modules)
      for (const Node& node : graph.nodes)
        if (!gradient(node) && node.op->role == Role::compute &&
            (node.path == module || node.path.starts_with(module + "."))) {
          modules.push_back(module);
          break;
        }
    if (modules.size() < 2) continue;
    Names already;
    if (below(random, 3) == 0) already = {one.modules[below(random, one.modules.size())]};
    const auto want = expected(graph, modules, already);
    EXPECT_EQ(recompute_candidates(graph, already), want) << "seed " << seed << "\n" << print(graph);
    ++lists[want.size()];
  }
  EXPECT_GT(lists[4], 0);
  EXPECT_GT(lists[2], 5);
}

}  // namespace
}  // namespace karez::passes
