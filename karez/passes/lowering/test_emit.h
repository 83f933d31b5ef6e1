// Compiled programs for the tests of the emit pass, on meshes of one to twelve devices.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "karez/passes/compile.h"
#include "karez/passes/namespace.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/sharding/layout_rules.h"
#include "karez/passes/test_programs.h"

namespace karez::passes::testing {

inline constexpr const char* meshes[] = {"", "data=2", "model=3", "data=4", "model=4", "data=2,model=2", "a=2,b=2,c=2"};

// Compiles a step whose layouts need several kinds of transfer: the batch is split on the first axis, a weight on the
// last axis.
inline const Compilation& compiled(const char* mesh) {
  static std::map<std::string, Compilation> compilations;
  auto found = compilations.find(mesh);
  if (found != compilations.end()) return found->second;
  Graph graph = mlp_step(Mesh::parse(mesh), {6, 9, 5}, 10);
  if (!graph.meshes[0].axes.empty()) {
    Layout x = broadcast_layout(graph.meshes[0]);
    x[0] = S(0);
    graph.value(graph.nodes[NodeId(0)].outputs[0]).layout = x;
    LayoutRule rules[] = {{"fc1.weight", {graph.meshes[0].axes.back().name}}};
    apply_rules(graph, rules);
  }
  Compilation c = compilation(std::move(graph));
  c.options.costs.link = {1e-12, 1e-12};  // messages cost almost nothing, so that bytes decide
  compile(c);
  return compilations.emplace(mesh, std::move(c)).first->second;
}

// Compiles a program with one transfer, whose box nodes are added by hand.
inline Compilation one_transfer(const Mesh& mesh, std::string move, Sbp from, Sbp to, Shape shape, int rank = 0,
                                const CostTable& costs = {}) {
  Graph graph;
  graph.meshes = {mesh};
  Builder b(graph, table());
  ValueId x = build::input(b, "x", {DType::f32, std::move(shape)});
  graph.value(x).layout = Layout{B()};
  if (!from.is_broadcast()) {
    x = b.one("box", {x},
              Attrs()
                  .set("axis", 0)
                  .set("move", from.is_partial() ? "to_partial" : "slice")
                  .set("from", "B")
                  .set("to", print(from)));
    graph.value(x).layout = Layout{from};
  }
  ValueId y = b.one("box", {x}, Attrs().set("axis", 0).set("move", move).set("from", print(from)).set("to", print(to)));
  graph.value(y).layout = Layout{to};
  ValueId z = build::exp(b, y);
  graph.value(z).layout = Layout{to};
  graph.outputs = {{"z", z}};
  Compilation c = compilation(std::move(graph));
  c.options.rank = rank;
  c.options.costs = costs;
  for (const DeviceName& device : mesh.devices) c.options.world = std::max(c.options.world, device.rank + 1);
  std::string_view skipped[] = {"canonicalise", "shard", "box"};
  for (const Pass& pass : pipeline())
    if (std::find(std::begin(skipped), std::end(skipped), pass.name) == std::end(skipped)) pass.run(c);
  return c;
}

}  // namespace karez::passes::testing
