// For tests of the shard pass: a program with fixed layouts, and the moves and compute seconds of a sharded program.
#pragma once

#include <string>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/shard.h"
#include "karez/passes/test_programs.h"

namespace karez::passes::testing {

struct ShardProgram {
  Graph graph;
  Builder b;
  explicit ShardProgram(const char* mesh) : b(graph, table()) {
    graph.meshes = {Mesh::parse(mesh)};
    b.where = "net.cc:7";
  }
  ShardProgram(const ShardProgram&) = delete;
  ValueId input(const char* name, const Shape& shape) { return build::input(b, name, {DType::f32, shape}); }
  ValueId weight(const std::string& name, const Shape& shape) { return parameter(b, name, {DType::f32, shape}); }
  void fix(ValueId value, const Layout& layout) { graph.value(value).layout = layout; }
  Compilation planned(const CostTable& costs = {}) const {
    Compilation c = compilation(graph);
    c.options.costs = costs;
    run_passes(c, {"shard"});
    return c;
  }
};

inline std::vector<std::string> moves_of(Compilation c) {
  run_passes(c, {"box"});
  std::vector<std::string> moves;
  for (const Node& node : c.graph.nodes)
    if (node.op->name == "box") moves.push_back(node.attrs.text("move"));
  return moves;
}

inline double compute_seconds(const Compilation& c) {
  double sum = 0;
  for (NodeId n : c.graph.nodes.ids())
    for (const NodeChoice& choice : choices_of(c.graph, n, c.options.costs)) {
      bool chosen = true;  // all outputs are fixed, so only the operands distinguish choices
      for (std::size_t i = 0; i < c.operand_layouts[n].size(); ++i)
        chosen = chosen && choice.in(i) == c.operand_layouts[n][i];
      if (chosen) sum += choice.seconds;
    }
  return sum;
}

}  // namespace karez::passes::testing
