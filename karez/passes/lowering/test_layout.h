// A catalog with fast and slow kernels and programs for the tests of the layout pass.
#pragma once

#include <string>
#include <utility>

#include "karez/base/text.h"
#include "karez/passes/lowering/dimension_order.h"
#include "karez/passes/lowering/layout.h"
#include "karez/passes/lowering/stride_choice.h"
#include "karez/passes/test_programs.h"

namespace karez::passes::testing {

// A catalog similar to that of the CPU: convolutions and pools are fast on channels-last data, pointwise calls on
// operands that have the order of the result or stride 0, and other ops on any strides. Plain kernels run all other
// calls.
class RatedCatalog : public KernelCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    bool fast = true;
    if (starts_with(call.op, "conv2d") || call.op.find("pool") != std::string::npos) {
      for (const auto* views : {&call.in, &call.out})
        for (const View& v : *views)
          fast = fast && (v.rank() != 4 || same_order(v.shape, v.strides, channels_last(v.shape)));
    } else if (call.op == "pointwise") {
      for (const View& v : call.in)
        fast = fast && (has_zero_stride(v) || same_order(v.shape, v.strides, call.out[0].strides));
    }
    return KernelChoice{cat(fast ? "fast." : "plain.", call.op), 0, fast ? 1 : 0.05};
  }
  std::optional<CallSpec> suggest(const CallSpec& call) const override {
    CallSpec last = call;
    for (auto* views : {&last.in, &last.out})
      for (View& v : *views)
        if (v.rank() == 4 && !has_zero_stride(v)) v.strides = channels_last(v.shape);
    return starts_with(find(call)->kernel, "plain.") && starts_with(find(last)->kernel, "fast.") ? last : call;
  }
  std::string list(std::string_view) const override { return "all"; }
};

struct LayoutProgram {
  Graph graph;
  Builder b{graph, table()};
  RatedCatalog catalog;
  explicit LayoutProgram(const char* mesh = "") { graph.meshes = {Mesh::parse(mesh)}; }
  ValueId input(const std::string& name, Shape shape, DType dtype = DType::f32) {
    return build::input(b, name, {dtype, std::move(shape)});
  }
  void output(ValueId value, const std::string& name = "y") { graph.outputs.push_back({name, value}); }
  Compilation ordered(int rank = 0) {
    Compilation c = compilation(graph);
    c.catalog = &catalog;
    c.options.rank = rank;
    run_passes(c, {"shard", "box", "order", "segment", "slots"});
    return c;
  }
};

// Formats the op and the dimension order of every value with four dimensions: "conv2d 0231".
inline std::string orders_of(const Compilation& c) {
  std::string text;
  const DimensionOrders orders = layout(c.graph, *c.catalog, c.options.costs);
  for (ValueId v : c.graph.values.ids()) {
    if (c.graph.values[v].type.shape.size() != 4) continue;
    text += cat(c.graph.node(c.graph.values[v].producer).op->name, " ");
    for (std::int64_t d : orders[v].empty() ? Ints{0, 1, 2, 3} : orders[v]) text += cat(d);
    text += "\n";
  }
  return text;
}

}  // namespace karez::passes::testing
