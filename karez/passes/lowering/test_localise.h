// Programs for the tests of the localise pass, and the calls and values of their devices.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "karez/passes/namespace.h"
#include "karez/passes/test_programs.h"

namespace karez::passes::testing {

struct LocaliseProgram {
  Graph graph;
  Builder b{graph, table()};
  AnyCatalog catalog;
  explicit LocaliseProgram(const char* mesh = "") { graph.meshes = {Mesh::parse(mesh)}; }
  ValueId fix(ValueId value, Layout layout) {
    graph.value(value).layout = std::move(layout);
    return value;
  }
  ValueId input(const std::string& name, Shape shape, DType dtype = DType::f32) {
    return build::input(b, name, {dtype, std::move(shape)});
  }
  void output(ValueId value, const std::string& name = "y") { graph.outputs.push_back({name, value}); }
  // Compiles up to localise; `needs_layouts` is false if the graph already has all layouts and boxes.
  Compilation localised(bool needs_layouts = true) {
    Compilation c = compilation(graph);
    c.catalog = &catalog;
    if (needs_layouts) run_passes(c, {"shard", "box"});
    run_passes(c, {"order", "segment", "slots", "layout", "localise"});
    return c;
  }
};

// Prints all calls of one device: "matmul(f32[3, 4], f32[4, 2]) -> f32[3, 2]".
inline std::string print_calls(const Compilation& c, int device = 0) {
  std::string text;
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls)
      if (segment.device == device) text += print(call.spec) + "\n";
  return text;
}

// Returns the device's part of the result of the first node with this op.
inline const LocalValue& find_result(const Compilation& c, std::string_view op, int device = 0) {
  for (const LocalValue& local : c.local.values)
    if (local.device == device && local.value.valid() &&
        c.graph.node(c.graph.value(local.value).producer).op->name == op)
      return local;
  fail("no value of ", op);
}

inline const LocalValue& root_of(const Compilation& c, const LocalValue& local) { return c.local.values[local.root]; }

}  // namespace karez::passes::testing
