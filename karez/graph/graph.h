// The logical program: nodes in SSA form over values that have a type, a mesh and, once chosen, a layout.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/attrs.h"
#include "karez/base/by_id.h"
#include "karez/base/id.h"
#include "karez/graph/namespace.h"
#include "karez/sbp/sbp.h"
#include "karez/tensor/tensor.h"

namespace karez::graph {

struct OpDef;
class OpTable;
struct Graph;

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;

struct Value {
  NodeId producer;  // invalid for an argument of a region
  int output = 0;   // index among the producer's results
  TensorType type;
  int mesh = 0;                  // index in Graph::meshes: the value's placement
  std::optional<Layout> layout;  // fixed by the user, or chosen by the pass `shard`
  bool operator==(const Value&) const = default;
};

struct Node {
  Node();
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  ~Node();

  const OpDef* op = nullptr;  // a row of the OpTable
  std::vector<ValueId> inputs;
  Attrs attrs;
  std::vector<ValueId> outputs;
  std::string path;              // module path, "fc1"
  std::string where;             // source line of the user's program, "net.cc:12"
  std::vector<NodeId> after;     // control edges: nodes that must end before this node begins
  int acts = 1;                  // number of acts in one launch: 1, or one for each micro-batch
  std::vector<Attrs> act_attrs;  // for each act, the attributes that differ between acts (see attrs_at); may be empty
  bool setup = false;            // depends only on constants; runs once when the plan is loaded (set by `shard`)
  std::vector<Graph> regions;    // bodies of scan, while and cond; outer values that a body reads are its arguments
};

// A parameter, optimiser state, running statistic or counter, stored in the Session under its name. A separate small
// graph with one output (`init`) computes its initial value.
struct Variable {
  std::string name;  // "fc1.weight"
  TensorType type;
  int mesh = 0;
  std::optional<Layout> stored;  // fixed by the user, an earlier compile, or `shard`
  ValueId read;                  // output of the `variable` node; invalid if this graph does not read the variable
  ValueId updated;               // the new value of the variable; invalid if this graph does not update it
  bool operator==(const Variable&) const = default;
};

struct Output {
  std::string name;
  ValueId value;
  std::optional<Layout> layout = {};  // layout in which the caller receives the value; Broadcast if absent
  bool operator==(const Output&) const = default;
};

struct Graph {
  Graph();
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  std::string name = "main";
  std::vector<Mesh> meshes = std::vector<Mesh>(1, Mesh::of_one_device());
  ById<NodeId, Node> nodes;  // in order: producers precede consumers
  ById<ValueId, Value> values;
  std::vector<ValueId> arguments;  // arguments of a region; empty for a program, which has `input` nodes instead
  std::vector<Variable> variables;
  std::vector<Output> outputs;

  const Node& node(NodeId id) const { return nodes[id]; }
  Node& node(NodeId id) { return nodes[id]; }
  const Value& value(ValueId id) const { return values[id]; }
  Value& value(ValueId id) { return values[id]; }
  const TensorType& type(ValueId id) const { return value(id).type; }
  const Mesh& mesh(ValueId id) const { return meshes[static_cast<std::size_t>(value(id).mesh)]; }
};

// Returns the number of times that the results of a node are filled in one launch: once if the node combines the
// results of its acts (see combines_acts() in op.h), otherwise once per act.
int fills_per_launch(const Node& node);
int fills_per_launch(const Graph& graph, ValueId value);

// Returns the attributes of a node in one of its acts: `attrs`, overridden by the entry of this act in `act_attrs`.
Attrs attrs_at(const Node& node, int act);

// A node with its graph: the argument of index functions, localise hooks, gradients and costs.
struct NodeView {
  const Graph* graph = nullptr;
  NodeId id;
  const Attrs* resolved_attrs = nullptr;  // attributes in one act; if null, the node's attributes

  const Node& node() const { return graph->node(id); }
  const Attrs& attrs() const { return resolved_attrs != nullptr ? *resolved_attrs : node().attrs; }
  ValueId in(std::size_t i) const { return node().inputs[i]; }
  ValueId out(std::size_t i) const { return node().outputs[i]; }
  std::size_t in_count() const { return node().inputs.size(); }
  std::size_t out_count() const { return node().outputs.size(); }
  const TensorType& in_type(std::size_t i) const { return graph->type(in(i)); }
  const TensorType& out_type(std::size_t i) const { return graph->type(out(i)); }
  std::vector<TensorType> in_types() const;
  std::vector<TensorType> out_types() const;
};

Layout layout_of(const Graph& graph, const Output& output);  // layout in which the caller receives the output

int mesh_of(const Graph& graph, NodeId id);  // mesh of the results, as an index in Graph::meshes; 0 if there are none

// Describes a node for errors and traces: "matmul at net.cc:12 (fc1)".
std::string describe(const Graph& graph, NodeId id);

// A consumer of a value, and the index of the operand. Outputs and updates of variables are not listed.
struct Use {
  NodeId node;
  int operand = 0;
  bool operator==(const Use&) const = default;
};
ById<ValueId, std::vector<Use>> uses_of(const Graph& graph);

// The text of a graph has one line per node; `print(parse_graph(print(g)))` equals `print(g)`.
//   graph main mesh(data=2, model=2) {
//     variable "fc.weight" : f32[10, 784@model] read %1 updated %9
//     %0 = input() {name="x"} : f32[64@data, 784] at "net.cc:3"
//     %1 = variable() {name="fc.weight"} : f32[10, 784@model]
//     %2 = matmul(%0, %1) {transpose_b=true} : f32[64@data, 10; sum@model] in "fc" at "net.cc:12" after n0 n1
//     %3 = relu(%2) : f32[16, 10] acts 4
//     %6 = exp(%5) : f32[16, 10] setup
//     %4 = random_uniform(%5) {site=0, ...} : f32[2, 10] acts 2 {begin=[0, 0]} {begin=[2, 0]}
//     output "loss" %7
//     output "state" %8 : f32[64@data, 10]
//   }
std::string print(const Graph& graph);
Graph parse_graph(std::string_view text, const OpTable& ops);

// Throws unless all ids exist, producers precede consumers, types equal the inferred types, layouts are valid, and each
// variable is read by at most one node. An operand of a node with several acts in a launch must be filled once per act
// or once per launch, and must not wait for all acts of another node.
void verify(const Graph& graph);

}  // namespace karez::graph
