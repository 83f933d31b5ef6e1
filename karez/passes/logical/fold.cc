// The step of canonicalise that folds constants: nodes that depend only on constants are evaluated at compile time, by
// FoldOptions::evaluate.
#include <algorithm>
#include <cstring>
#include <optional>

#include "karez/base/attr_cast.h"
#include "karez/base/hex.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/logical/rewritable_producer.h"
#include "karez/passes/lowering/call.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

double number_of(const HostBytes& bytes, DType dtype) {
  return with_type(dtype, [&]<class T>() {
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return static_cast<double>(value);
  });
}

HostBytes bytes_of(const Attr& attribute, DType dtype) {
  return with_type(dtype, [&]<class T>() {
    T value = attr_cast<T>(attribute);
    HostBytes bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  });
}

// True if a double represents the number exactly, which holds for every i64 up to 2^53. The attribute of a splat is a
// double.
bool is_exact(double number, DType dtype) { return dtype != DType::i64 || (number > -9e15 && number < 9e15); }

class Folder {
 public:
  Folder(Graph& graph, const FoldOptions& folding)
      : folding_(folding),
        graph_(graph),
        rewrite_(graph, Rewrite::MoveNodes{}) {}

  int run() {
    int folded = 0;
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.nodes[n];
      bool is_foldable = node.op->pure && node.outputs.size() == 1 && !node.inputs.empty() && node.regions.empty() &&
                         !graph_.value(node.outputs[0]).layout;
      for (ValueId in : node.inputs) is_foldable &= is_constant(in);
      if (is_foldable && fold(n)) {
        ++folded;
      } else {
        rewrite_.keep(n);
      }
    }
    graph_ = rewrite_.finish();
    return folded;
  }

 private:
  const Node* producer(ValueId value) const { return rewritable_producer(rewrite_.graph(), rewrite_.at(value)); }
  const Node& constant_of(ValueId value) const { return *producer(value); }
  bool is_constant(ValueId value) const {
    return producer(value) != nullptr && producer(value)->op->name == "constant";
  }

  bool add_constant(NodeId source, const TensorType& type, Attrs value) {
    value.set("dtype", std::string(name_of(type.dtype))).set("shape", Ints(type.shape));
    NodeId node = rewrite_.add(&folding_.ops->at("constant"), {}, std::move(value), std::span(&type, 1),
                               graph_.value(graph_.node(source).outputs[0]).mesh, source);
    rewrite_.map(graph_.node(source).outputs[0], rewrite_.graph().node(node).outputs[0]);
    return true;
  }

  bool fold(NodeId id) {
    NodeView view{&graph_, id};
    const Node& node = view.node();
    const TensorType type = view.out_type(0);
    bool all_splats = true;
    for (ValueId in : node.inputs) all_splats &= constant_of(in).attrs.has("value");
    bool is_window = node.op->role == Role::window, is_transfer = node.op->role == Role::transfer;
    if (is_transfer) return add_constant(id, type, Attrs(constant_of(node.inputs[0]).attrs));  // each mesh creates it
    if (all_splats && is_window)
      return add_constant(id, type, Attrs().set("value", attr_at(constant_of(node.inputs[0]).attrs, "value")));
    if (!folding_.evaluate) return false;
    bool one_element = all_splats && node.op->elementwise;  // all elements are equal, so only one element is computed
    if (!one_element && type.bytes() > folding_.max_bytes) return false;
    std::vector<View> in;
    std::vector<HostBytes> bytes;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Node& constant = constant_of(node.inputs[i]);
      TensorType element_type{view.in_type(i).dtype, one_element ? Shape() : view.in_type(i).shape};
      if (element_type.bytes() > folding_.max_bytes) return false;
      in.emplace_back(element_type);
      HostBytes value;
      if (constant.attrs.has("value")) {
        HostBytes element = bytes_of(attr_at(constant.attrs, "value"), element_type.dtype);
        for (std::int64_t k = 0; k < element_type.count(); ++k)
          value.insert(value.end(), element.begin(), element.end());
      } else {
        value = base::bytes_of_hex(constant.attrs.text("data"));
      }
      bytes.push_back(std::move(value));
    }
    View out(type.dtype, one_element ? Shape() : type.shape);
    if (is_window) return false;  // a window on constant data costs nothing
    HostBytes result = folding_.evaluate(call_of(view, std::move(in), {out}, node.attrs), bytes)[0];
    if (one_element || type.count() == 1) {
      double number = number_of(result, type.dtype);
      if (is_exact(number, type.dtype)) return add_constant(id, type, Attrs().set("value", number));
      if (one_element) return false;
    }
    return add_constant(id, type, Attrs().set("data", base::hex_of(result)));
  }

  const FoldOptions& folding_;
  Graph& graph_;
  Rewrite rewrite_;
};

}  // namespace

int fold_constants(Graph& graph, const FoldOptions& folding) {
  // Most programs have no node that depends only on constants, and need no copy.
  const auto is_constant = [&](ValueId value) {
    const Node* producer = rewritable_producer(graph, value);
    return producer != nullptr && producer->op->name == "constant";
  };
  const auto is_splat = [&](ValueId value) { return rewritable_producer(graph, value)->attrs.has("value"); };
  const bool has_candidates = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return node.op->pure && !node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), is_constant) &&
           (node.op->role != Role::window || std::all_of(node.inputs.begin(), node.inputs.end(), is_splat));
  });
  return has_candidates ? Folder(graph, folding).run() : 0;
}

}  // namespace karez::passes
