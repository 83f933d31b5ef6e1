// canonicalise's constant folding: nodes that depend only on constants are evaluated now, by the caller's evaluate.
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

HostBytes bytes_of(const Attr& number, DType dtype) {
  return with_type(dtype, [&]<class T>() {
    T value = attr_cast<T>(number);
    HostBytes bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  });
}

// A double represents every i64 up to 2^53; beyond that a splat would be a different number.
bool survives(double number, DType dtype) { return dtype != DType::i64 || (number > -9e15 && number < 9e15); }

class Folder {
 public:
  Folder(Graph& graph, const FoldOptions& folding) : folding_(folding), graph_(graph), rewrite_(graph) {}

  int run() {
    int folded = 0;
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.nodes[n];
      bool constant_in = node.op->pure && node.outputs.size() == 1 && !node.inputs.empty() && node.regions.empty() &&
                         !graph_.value(node.outputs[0]).layout;
      for (ValueId in : node.inputs) constant_in &= known(in);
      if (constant_in && fold(n)) {
        ++folded;
      } else {
        rewrite_.keep(n);
      }
    }
    if (folded > 0) graph_ = rewrite_.finish();
    return folded;
  }

 private:
  const Node* producer(ValueId value) const { return rewritable_producer(rewrite_.graph(), rewrite_.at(value)); }
  const Node& constant_of(ValueId value) const { return *producer(value); }
  bool known(ValueId value) const { return producer(value) != nullptr && producer(value)->op->name == "constant"; }

  bool add_constant(NodeId like, const TensorType& type, Attrs value) {
    value.set("dtype", std::string(name_of(type.dtype))).set("shape", Ints(type.shape));
    NodeId node = rewrite_.add(&folding_.ops->at("constant"), {}, std::move(value), std::span(&type, 1),
                               graph_.value(graph_.node(like).outputs[0]).mesh, like);
    rewrite_.map(graph_.node(like).outputs[0], rewrite_.graph().node(node).outputs[0]);
    return true;
  }

  bool fold(NodeId id) {
    NodeView view{&graph_, id};
    const Node& node = view.node();
    const TensorType type = view.out_type(0);
    bool splats = true;
    for (ValueId in : node.inputs) splats &= constant_of(in).attrs.has("value");
    bool window = node.op->role == Role::window, moved = node.op->role == Role::transfer;
    if (moved) return add_constant(id, type, Attrs(constant_of(node.inputs[0]).attrs));  // created on both meshes
    if (splats && window)
      return add_constant(id, type, Attrs().set("value", attr_at(constant_of(node.inputs[0]).attrs, "value")));
    if (!folding_.evaluate) return false;
    bool one = splats && node.op->elementwise;  // all elements are equal: one is computed, for any shape
    if (!one && type.bytes() > folding_.max_bytes) return false;
    std::vector<View> in;
    std::vector<HostBytes> bytes;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Node& constant = constant_of(node.inputs[i]);
      TensorType from{view.in_type(i).dtype, one ? Shape() : view.in_type(i).shape};
      if (from.bytes() > folding_.max_bytes) return false;
      in.emplace_back(from);
      HostBytes value;
      if (constant.attrs.has("value")) {
        HostBytes element = bytes_of(attr_at(constant.attrs, "value"), from.dtype);
        for (std::int64_t k = 0; k < from.count(); ++k) value.insert(value.end(), element.begin(), element.end());
      } else {
        value = base::bytes_of_hex(constant.attrs.text("data"));
      }
      bytes.push_back(std::move(value));
    }
    View out(type.dtype, one ? Shape() : type.shape);
    if (window) return false;  // of constant data: a view costs nothing
    HostBytes result = folding_.evaluate(call_of(view, std::move(in), {out}, node.attrs), bytes)[0];
    if (one || type.count() == 1) {
      double number = number_of(result, type.dtype);
      if (survives(number, type.dtype)) return add_constant(id, type, Attrs().set("value", number));
      if (one) return false;
    }
    return add_constant(id, type, Attrs().set("data", base::hex_of(result)));
  }

  const FoldOptions& folding_;
  Graph& graph_;
  Rewrite rewrite_;
};

}  // namespace

int fold_constants(Graph& graph, const FoldOptions& folding) { return Folder(graph, folding).run(); }

}  // namespace karez::passes
