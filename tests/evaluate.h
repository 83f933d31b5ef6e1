// Direct evaluation for tests: one call on one row, one node, or a whole graph node by node; arrays are row-major outside, views as stored inside.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "device/host_array.h"
#include "graph/op.h"
#include "kernels/kernel.h"
#include "passes/call.h"

namespace karez::tests {

// Bytes of an array laid as a view has them, element by element; what lies between the elements is a pattern.
class Stored {
 public:
  explicit Stored(View view) : view_(std::move(view)), bytes_(TensorType{DType::b8, {view_.bytes()}}) {
    std::fill_n(bytes_.bytes(), view_.bytes(), std::byte{0xA5});
  }
  Stored(View view, const HostArray& array) : Stored(std::move(view)) {
    each_element([&](std::size_t number, std::size_t place, std::size_t size) {
      std::memcpy(bytes_.bytes() + place * size, array.bytes() + number * size, size);
    });
  }
  HostArray array() const {
    HostArray out(view_.type());
    each_element([&](std::size_t number, std::size_t place, std::size_t size) {
      std::memcpy(out.bytes() + number * size, bytes_.bytes() + place * size, size);
    });
    return out;
  }
  std::byte* bytes() const { return bytes_.bytes(); }

 private:
  // visit(the element's number in row-major order, where the strides put it, its bytes)
  void each_element(auto visit) const {
    std::int64_t count = 1;
    for (std::int64_t size : view_.shape) count *= size;
    for (std::int64_t number = 0; number < count; ++number) {
      std::int64_t rest = number, place = 0;
      for (std::size_t d = view_.shape.size(); d-- > 0; rest /= view_.shape[d]) place += rest % view_.shape[d] * view_.strides[d];
      visit(static_cast<std::size_t>(number), static_cast<std::size_t>(place), static_cast<std::size_t>(size_of(view_.dtype)));
    }
  }

  View view_;
  HostArray bytes_;
};

inline std::vector<HostArray> run_call(const KernelRow& row, const CallSpec& call, std::span<const HostArray> in) {
  require(in.size() == call.in.size(), print(call), " gets ", in.size(), " arrays");
  std::vector<Stored> from, to;
  std::vector<std::byte*> ins, outs;
  for (std::size_t i = 0; i < in.size(); ++i) {
    require(in[i].type() == call.in[i].type(), print(call), ": operand ", i, " is ", in[i].type());
    from.emplace_back(call.in[i], in[i]);
  }
  for (const View& view : call.out) to.emplace_back(view);
  for (const Stored& s : from) ins.push_back(s.bytes());
  for (const Stored& s : to) outs.push_back(s.bytes());
  const HostArray workspace(TensorType{DType::b8, {row.workspace ? row.workspace(call) : 0}});
  row.prepare(call)({ins, outs, workspace.bytes()});
  std::vector<HostArray> arrays;
  for (const Stored& s : to) arrays.push_back(s.array());
  return arrays;
}

// The call of a node on operands of the given types, stored as everything is, with localised attributes.
inline CallSpec stored_call(const NodeView& node, const std::vector<TensorType>& in, const std::vector<TensorType>& out, const Attrs& local) {
  std::vector<View> in_views, out_views;
  for (const TensorType& type : in) in_views.push_back(stored_view(type.dtype, type.shape));
  for (const TensorType& type : out) out_views.push_back(stored_view(type.dtype, type.shape));
  return call_of(node, in_views, out_views, local);
}

// A call's operands are the last of its node's: assign(old, value) reads only the value.
inline std::vector<HostArray> run_call(const KernelTable& table, const CallSpec& call, std::span<const HostArray> in) {
  const auto choice = table.find(call);
  require(choice.has_value(), "no kernel takes ", print(call), "; ", table.list(call.op));
  return run_call(table.row(choice->kernel), call, in.last(call.in.size()));
}

// Localised attributes of a node that one device runs whole.
inline Attrs whole_attrs(const NodeView& node) {
  LocalView view{node, {}, {}};
  for (const TensorType& type : node.in_types()) view.in.push_back(whole(type.shape));
  for (const TensorType& type : node.out_types()) view.out.push_back(whole(type.shape));
  return localise(view);
}

// All values of a graph, by value index, on one device. Inputs and variables come from `feed`.
inline ById<ValueId, HostArray> evaluate(const KernelTable& table, const Graph& graph, const std::map<std::string, HostArray>& feed) {
  ById<ValueId, HostArray> values(graph.values.size());
  for (NodeId n : graph.nodes.ids()) {
    const NodeView node{&graph, n};
    const std::string& op = node.node().op->name;
    if (op == "input" || op == "variable") {
      const auto at = feed.find(node.attrs().text("name"));
      require(at != feed.end(), "nothing is fed for '", node.attrs().text("name"), "'");
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
