// The graph verifier, which runs between passes. Errors describe a node by its op and source line.
#include <set>

#include "karez/graph/op.h"

namespace karez::graph {
namespace {

// Describes a node; the text is formatted only if there is an error.
struct NodeName {
  const Graph& graph;
  NodeId id;

  friend std::ostream& operator<<(std::ostream& out, const NodeName& name) {
    return out << describe(name.graph, name.id);
  }
};

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph),
        is_defined_(graph.values.size(), false),
        waits_for_all_acts_(graph.values.size(), false) {}

  void run() {
    require(!graph_.meshes.empty(), "graph ", graph_.name, " has no mesh");
    for (ValueId id : graph_.arguments) {
      require(exists(id) && !is_defined(id), "graph ", graph_.name, ": argument %", id,
              exists(id) ? " is listed twice" : " does not exist");
      require(!graph_.value(id).producer.valid(), "graph ", graph_.name, ": argument %", id,
              " is also a result of node n", graph_.value(id).producer);
      layout([&] { return cat("argument %", id, " of graph ", graph_.name); }, id);
      is_defined_[id] = true;
    }
    for (NodeId n : graph_.nodes.ids()) node(n);
    for (ValueId v : graph_.values.ids()) {
      NodeId producer = graph_.values[v].producer;
      require(!producer.valid() || is_defined_[v], "graph ", graph_.name, ": value %", v, " names node n", producer,
              " as its producer, which does not list it as a result");
    }
    variables();
    outputs();
  }

 private:
  bool exists(ValueId id) const { return graph_.values.has(id); }
  bool is_defined(ValueId id) const { return exists(id) && is_defined_[id]; }

  template <class What> void layout(const What& what, ValueId id) const {
    const Value& value = graph_.value(id);
    verify_layout(what, value.type, value.mesh, value.layout);
  }

  template <class What>
  void verify_layout(const What& what, const TensorType& type, int mesh, const std::optional<Layout>& layout) const {
    if (mesh < 0 || static_cast<std::size_t>(mesh) >= graph_.meshes.size())
      fail(what(), " is on mesh", mesh, ", which does not exist; number of meshes: ", graph_.meshes.size());
    std::string reason;
    const Mesh& value_mesh = graph_.meshes[static_cast<std::size_t>(mesh)];
    if (layout && !is_valid(type, value_mesh, *layout, &reason))
      fail(ErrorKind::layout, what(), ": ", type, " cannot have layout ", print(*layout), " on ", print(value_mesh),
           ": ", reason);
  }

  void node(NodeId id) {
    const Node& node = graph_.node(id);
    require(node.op != nullptr, "node n", id, " has no op");
    const NodeName name{graph_, id};
    require(node.op->inputs < 0 || static_cast<int>(node.inputs.size()) == node.op->inputs, name, " expects ",
            node.op->inputs, node.op->inputs == 1 ? " operand" : " operands", ", got ", node.inputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      ValueId in = node.inputs[i];
      require(exists(in), name, ": operand ", i, " is %", in, ", which does not exist; the graph has ",
              graph_.values.size(), " values");
      require(is_defined(in), name, ": operand ", i, " is %", in, ", which no earlier node produces");
      require(graph_.value(in).mesh == graph_.value(node.inputs[0]).mesh, name, ": operand ", i, " is on mesh",
              graph_.value(in).mesh, ", but operand 0 is on mesh", graph_.value(node.inputs[0]).mesh);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      ValueId out = node.outputs[i];
      require(exists(out), name, ": result ", i, " is %", out, ", which does not exist; the graph has ",
              graph_.values.size(), " values");
      const Value& value = graph_.value(out);
      require(!is_defined(out), name, ": result ", i, " is %", out, ", which node n", value.producer, " also produces");
      require(value.producer == id && value.output == static_cast<int>(i), name, ": result ", i, " is %", out,
              ", which is recorded as result ", value.output, " of node n", value.producer);
      layout([&] { return cat(name, ": result ", i); }, out);
      int mesh = graph_.value(node.inputs.empty() ? node.outputs[0] : node.inputs[0]).mesh;
      require(value.mesh == mesh || node.op->role == Role::transfer, name, ": result ", i, " is on mesh", value.mesh,
              ", but its operands are on mesh", mesh);
    }
    types(name, NodeView{&graph_, id});
    rates(name, node);
    for (ValueId out : node.outputs) is_defined_[out] = true;
    for (NodeId earlier : node.after)
      require(earlier.valid() && earlier < id, name, " must run after node n", earlier,
              ", which does not precede it (n", id, ")");
    for (const Graph& region : node.regions) {
      try {
        require(region.variables.empty(), "graph ", region.name, " is a region and has ", region.variables.size(),
                " variables");
        verify(region);
      } catch (const Error& error) { fail(error.kind, name, ": in its region: ", error.what()); }
    }
  }

  void types(const NodeName& name, const NodeView& view) {
    std::vector<TensorType> inferred;
    if (operand_types_.size() < view.in_count()) operand_types_.resize(view.in_count());
    for (std::size_t i = 0; i < view.in_count(); ++i) operand_types_[i] = view.in_type(i);
    try {
      inferred = view.node().op->infer(std::span(operand_types_).first(view.in_count()), view.attrs());
    } catch (const Error& error) { fail(error.kind, name, ": ", error.what()); }
    require(inferred.size() == view.out_count(), name, " has ", view.out_count(), " results; its op infers ",
            inferred.size());
    for (std::size_t i = 0; i < inferred.size(); ++i)
      require(inferred[i] == view.out_type(i), name, ": result ", i, " is ", view.out_type(i),
              "; inferred from its operands: ", inferred[i]);
  }

  // An operand is filled once per act, or once per launch and then used by all acts. A node with several acts must not
  // wait, directly or indirectly, for a result of all acts of another node.
  void rates(const NodeName& name, const Node& node) {
    require(node.acts >= 1, name, " acts ", node.acts, " times in a launch; must be at least 1");
    require(node.act_attrs.empty() || (node.acts > 1 && node.act_attrs.size() == static_cast<std::size_t>(node.acts)),
            name, " acts ", node.acts, " times in a launch, but has ", node.act_attrs.size(),
            " sets of act attributes");
    const Role role = node.op->role;
    bool waits = combines_acts(role) && node.acts > 1;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      const int fills = fills_per_launch(graph_, in);
      require(fills == node.acts || (fills == 1 && !combines_acts(role)), name, " acts ", node.acts,
              " times in a launch, but operand ", i, ", %", in, ", is produced ", fills, " times");
      require(role != Role::micro_slice || fills == 1, name, " slices %", in, ", which is produced ", fills,
              " times in a launch, not once");
      require(node.acts == 1 || !waits_for_all_acts_[in], name, " acts ", node.acts, " times in a launch, but operand ",
              i, ", %", in, ", waits for all acts of earlier nodes");
      waits = waits || waits_for_all_acts_[in];
    }
    if (role == Role::micro_join || role == Role::micro_slice)
      require(node.attrs.integer("parts") == node.acts, name, " has ", node.attrs.integer("parts"), " parts, but acts ",
              node.acts, " times in a launch");
    for (ValueId out : node.outputs) waits_for_all_acts_[out] = waits;
  }

  void require_one_fill(const std::string& what, ValueId value) const {
    require(fills_per_launch(graph_, value) == 1, what, " is %", value, ", which is produced ",
            fills_per_launch(graph_, value), " times in a launch, not once");
  }

  void variables() const {
    std::set<std::string> names;
    std::set<ValueId> read;
    for (const Variable& v : graph_.variables) {
      require(ErrorKind::name, names.insert(v.name).second, "two variables are called '", v.name, "'");
      std::string what = cat("variable '", v.name, "'");
      verify_layout([&] { return what; }, v.type, v.mesh, v.stored);
      for (auto [id, verb] : {std::pair{v.read, "read as"}, std::pair{v.updated, "updated to"}}) {
        if (!id.valid()) continue;
        require(is_defined(id), what, " is ", verb, " %", id, ", which no node produces");
        require(graph_.type(id) == v.type, what, " has type ", v.type, ", but is ", verb, " %", id, " of type ",
                graph_.type(id));
        require(graph_.value(id).mesh == v.mesh, what, " is on mesh", v.mesh, ", but is ", verb, " %", id, " on mesh",
                graph_.value(id).mesh);
      }
      if (v.updated.valid()) require_one_fill(cat("the next version of ", what), v.updated);
      if (!v.read.valid()) continue;
      require(read.insert(v.read).second, what, " is read as %", v.read,
              ", but another variable is read as the same value");
      NodeId reader = graph_.value(v.read).producer;
      require(reader.valid() && graph_.node(reader).op->role == Role::state, what, " is read as %", v.read,
              ", which is not the result of a 'variable' node");
      const Attrs& attrs = graph_.node(reader).attrs;
      require(attrs.text("name", v.name) == v.name, what, " is read as %", v.read, ", which is named '",
              attrs.text("name", v.name), "'");
    }
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.nodes[n];
      if (node.op->role != Role::state) continue;
      if (node.outputs.size() != 1 || read.count(node.outputs[0]) != 1)
        fail(NodeName{graph_, n}, " ", node.attrs.print(),
             " reads a variable that the graph does not list or that another node reads");
    }
  }

  void outputs() const {
    std::set<std::string> names;
    for (const Output& output : graph_.outputs) {
      require(ErrorKind::name, names.insert(output.name).second, "two outputs are called '", output.name, "'");
      require(is_defined(output.value), "output '", output.name, "' is %", output.value, ", which no node produces");
      require_one_fill(cat("output '", output.name, "'"), output.value);
      if (!output.layout) continue;
      const std::string what = cat("output '", output.name, "'");
      verify_layout([&] { return what; }, graph_.type(output.value), graph_.value(output.value).mesh, output.layout);
      for (Sbp entry : *output.layout)
        if (entry.is_partial())
          fail(ErrorKind::layout, what, " has layout ", print(*output.layout), "; an output must not be Partial");
    }
  }

  const Graph& graph_;
  ById<ValueId, bool> is_defined_;
  ById<ValueId, bool> waits_for_all_acts_;  // whether the value waits for all acts of a node with several acts
  std::vector<TensorType> operand_types_;   // of the current node; a member, so that shapes reuse their memory
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace karez::graph
