// Runs the nodes of a graph on kernels, one call after another.
#include "tests/evaluate.h"

namespace karez::tests {

std::vector<HostArray> run_call(const KernelRow& row, const CallSpec& call, std::span<const HostArray> in) {
  require(in.size() == call.in.size(), print(call), ": expected ", call.in.size(), " operands, got ", in.size());
  std::vector<StridedArray> from, to;
  std::vector<std::byte*> ins, outs;
  for (std::size_t i = 0; i < in.size(); ++i) {
    require(in[i].type() == call.in[i].type(), print(call), ": operand ", i, " must be ", call.in[i].type(), ", got ",
            in[i].type());
    from.emplace_back(call.in[i], in[i]);
  }
  for (const View& view : call.out) to.emplace_back(view);
  for (const StridedArray& s : from) ins.push_back(s.bytes());
  for (const StridedArray& s : to) outs.push_back(s.bytes());
  const HostArray workspace(TensorType{DType::b8, {row.workspace ? row.workspace(call) : 0}});
  row.prepare(call)({ins, outs, workspace.bytes()});
  std::vector<HostArray> arrays;
  for (const StridedArray& s : to) arrays.push_back(s.array());
  return arrays;
}

CallSpec stored_call(const NodeView& node, const std::vector<TensorType>& in, const std::vector<TensorType>& out,
                     const Attrs& local) {
  std::vector<View> in_views, out_views;
  for (const TensorType& type : in) in_views.push_back(stored_view(type.dtype, type.shape));
  for (const TensorType& type : out) out_views.push_back(stored_view(type.dtype, type.shape));
  return call_of(node, in_views, out_views, local);
}

std::vector<HostArray> run_call(const KernelTable& table, const CallSpec& call, std::span<const HostArray> in) {
  const auto choice = table.find(call);
  require(choice.has_value(), "no kernel supports ", print(call), "; ", table.list(call.op));
  return run_call(table.row(choice->kernel), call, in.last(call.in.size()));
}

Attrs whole_attrs(const NodeView& node) {
  LocalView view{node, {}, {}};
  for (const TensorType& type : node.in_types()) view.in.push_back(full_box(type.shape));
  for (const TensorType& type : node.out_types()) view.out.push_back(full_box(type.shape));
  return localise(view);
}

ById<ValueId, HostArray> evaluate(const KernelTable& table, const Graph& graph,
                                  const std::map<std::string, HostArray>& feed) {
  ById<ValueId, HostArray> values(graph.values.size());
  for (NodeId n : graph.nodes.ids()) {
    const NodeView node{&graph, n};
    const std::string& op = node.node().op->name;
    if (op == "input" || op == "variable") {
      const auto at = feed.find(node.attrs().text("name"));
      require(at != feed.end(), "there is no feed for '", node.attrs().text("name"), "'");
      values[node.out(0)] = at->second;
      continue;
    }
    std::vector<HostArray> in;
    for (ValueId id : node.node().inputs) in.push_back(values[id]);
    const auto out = run_call(table, stored_call(node, node.in_types(), node.out_types(), whole_attrs(node)), in);
    for (std::size_t i = 0; i < out.size(); ++i) values[node.out(i)] = out[i];
  }
  return values;
}

}  // namespace karez::tests
