// Tests of sharding equivalence in the engine: every op that is compiled and run by actors under a legal sharding gives
// the result that it gives on unsplit tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "karez/base/text.h"
#include "karez/data/array_source.h"
#include "karez/graph/test_shardings.h"
#include "karez/passes/compile.h"
#include "karez/runtime/session.h"
#include "tests/evaluate.h"
#include "tests/op_cases.h"
#include "tests/shards.h"

namespace karez::tests {
namespace {

struct ShardingCase {
  std::size_t case_index = 0;  // in op_cases()
  Mesh mesh;
  std::vector<Sharding> shardings;
};

Layout layout_of(const std::vector<Sharding>& sharding_cases, bool out, std::size_t i) {
  Layout layout;
  for (const Sharding& sharding_case : sharding_cases)
    layout.push_back(out ? sharding_case.out[i] : sharding_case.in[i]);
  return layout;
}

constexpr std::int64_t parts = 4;  // summands of a Partial operand

bool is_sum(const ShardingCase& sharding_case, std::size_t operand, DType dtype) {
  const Layout layout = layout_of(sharding_case.shardings, false, operand);
  return is_float(dtype) && std::find(layout.begin(), layout.end(), P()) != layout.end();
}

// input -> copy (with the sharding's operand layout) -> op (with the sharding's result layout) -> output, with boxes
// between different layouts. A Partial float operand is an input of summands and a reduce_sum, because a product takes
// a Partial operand only from such a sum.
Graph graph_for(const OpCase& c, const ShardingCase& sharding_case, const OpTable& ops) {
  Graph graph;
  graph.meshes = {sharding_case.mesh};
  Builder b(graph, ops);
  b.where = "sharding_equivalence.cc:1";
  std::vector<ValueId> in;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    TensorType type = c.in[i];
    const bool sum = is_sum(sharding_case, i, type.dtype);
    if (sum) type.shape.insert(type.shape.begin(), parts);
    const ValueId x = build::input(b, cat("x", i), type);
    const ValueId with_layout_value = sum ? build::reduce_sum(b, x, {0}) : b.one("copy", {x});
    graph.value(with_layout_value).layout = layout_of(sharding_case.shardings, false, i);
    in.push_back(with_layout_value);
  }
  auto out = b.add(c.op, in, c.attrs);
  for (std::size_t i = 0; i < out.size(); ++i) {
    graph.value(out[i]).layout = layout_of(sharding_case.shardings, true, i);
    graph.outputs.push_back({cat("y", i), out[i]});
  }
  return graph;
}

HostArray stack(const std::vector<HostArray>& arrays) {
  TensorType type = arrays[0].type();
  type.shape.insert(type.shape.begin(), static_cast<std::int64_t>(arrays.size()));
  HostArray out(type);
  const auto bytes = static_cast<std::size_t>(arrays[0].view().bytes());
  for (std::size_t k = 0; k < arrays.size(); ++k) std::memcpy(out.bytes() + k * bytes, arrays[k].bytes(), bytes);
  return out;
}

void run_case(Session& session, const KernelTable& table, const OpTable& ops, const OpCase& c,
              const ShardingCase& sharding_case, std::mt19937_64& random) {
  Graph whole = graph_of(c, ops);
  NodeView node{&whole, NodeId(whole.nodes.size() - 1)};
  auto inputs = random_inputs(c, random);
  auto expected = run_call(table, stored_call(node, node.in_types(), node.out_types(), whole_attrs(node)), inputs);

  Compilation compilation;
  compilation.graph = graph_for(c, sharding_case, ops);
  compilation.ops = &ops;
  compilation.catalog = &table;
  compilation.options.workers = 2;
  compilation.options.costs.link = {1e-3, 1e-6};  // so expensive that nodes take the fixed layouts of their neighbours
  compile(compilation);
  Feeds feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    HostArray fed_value = inputs[i];
    if (is_sum(sharding_case, i, fed_value.dtype())) fed_value = stack(summands(fed_value, Reduce::sum, parts, random));
    feeds.emplace_back(cat("x", i), Feed{array_source(fed_value), 0});
  }
  Launch launch = session.launch(session.load(compilation.plan), feeds);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const HostArray& got = launch.output(cat("y", i));
    with_type(expected[i].dtype(), [&]<class T>() {
      double scale = 1;
      if constexpr (std::is_floating_point_v<T>)
        for (T x : expected[i].data<T>())
          if (std::isfinite(x)) scale = std::max(scale, std::abs(static_cast<double>(x)));
      for (std::size_t e = 0; e < expected[i].data<T>().size(); ++e) {
        const T a = got.data<T>()[e], w = expected[i].data<T>()[e];
        if (a == w || (a != a && w != w)) continue;
        double tolerance = std::is_floating_point_v<T> ? 1e-12 * scale : 0;
        require(std::abs(static_cast<double>(a) - static_cast<double>(w)) <= tolerance, "element ", e, " of output ", i,
                " is ", a, ", but on unsplit tensors it is ", w);
      }
    });
  }
}

TEST(ShardingEquivalenceEngine, ActorsOnAMeshGiveTheResultOnUnsplitTensors) {
  const OpTable ops = all_ops();
  const KernelTable table(plain_kernels());
  const auto cases = op_cases();
  std::vector<ShardingCase> sharding_cases;
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const Graph graph = graph_of(cases[k], ops);
    NodeView node{&graph, NodeId(graph.nodes.size() - 1)};
    if (node.node().op->name == "assign" || node.node().op->name == "copy")
      continue;  // passes insert these at variables; here every operand has a copy
    for (const char* text : {"data=2", "data=3", "data=4", "data=2,model=2"}) {
      Mesh mesh = Mesh::parse(text);
      for (auto& shardings : mesh_shardings(node, mesh)) sharding_cases.push_back({k, mesh, std::move(shardings)});
    }
  }
  const char* seed_text = std::getenv("KAREZ_SEED");
  const std::uint64_t seed = seed_text != nullptr ? std::stoull(seed_text) : std::random_device()();
  std::mt19937_64 random(seed);
  std::size_t total_cases = sharding_cases.size();
  if (std::getenv("KAREZ_ALL") == nullptr) {
    std::shuffle(sharding_cases.begin(), sharding_cases.end(), random);
    sharding_cases.resize(std::min<std::size_t>(sharding_cases.size(), 400));
  }
  Session session({.workers = 2}, table);
  for (std::size_t w = 0; w < sharding_cases.size(); ++w) {
    const OpCase& c = cases[sharding_cases[w].case_index];
    try {
      run_case(session, table, ops, c, sharding_cases[w], random);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ": " << print(c) << " on " << print(sharding_cases[w].mesh) << " as "
                    << join(sharding_cases[w].shardings, " x ", [](const Sharding& s) { return print(s); }) << ": "
                    << error.what();
      session.reload();
    }
    if (w % 50 == 49) session.reload();  // frees the plans
  }
  std::cout << "sharding equivalence through the engine: " << sharding_cases.size() << " of " << total_cases
            << " combinations of case, mesh and sharding, KAREZ_SEED=" << seed << "\n";
}

}  // namespace
}  // namespace karez::tests
