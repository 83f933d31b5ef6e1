// Prints a graph with one line per node; karez/graph/parse.cc parses the text.
#include "karez/graph/print.h"

#include <algorithm>
#include <cctype>

#include "karez/base/text.h"
#include "karez/graph/op.h"

namespace karez::graph {
namespace {

std::string value_name(ValueId id) { return cat("%", id.index); }

// Returns the name, quoted if it is not one word.
std::string graph_name(const std::string& name) {
  bool is_word = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  for (unsigned char c : name) is_word = is_word && (std::isalnum(c) != 0 || c == '_');
  return is_word ? name : quote(name);
}

// Returns "f32[64@data, 10; sum@model] on mesh1"; the default mesh is omitted.
std::string type_text(const Graph& graph, const TensorType& type, int mesh, const std::optional<Layout>& layout) {
  std::string text;
  if (layout) {  // an invalid layout is printed, too, but cannot be parsed
    bool is_valid_layout = mesh >= 0 && static_cast<std::size_t>(mesh) < graph.meshes.size() &&
                           is_valid(type, graph.meshes[static_cast<std::size_t>(mesh)], *layout);
    text = is_valid_layout ? print(type, graph.meshes[static_cast<std::size_t>(mesh)], *layout)
                           : cat(print(type), " with layout ", print(*layout));
  } else {
    text = print(type);
  }
  return mesh == 0 ? text : cat(text, " on mesh", mesh);
}
std::string type_text(const Graph& graph, ValueId id) {
  return type_text(graph, graph.type(id), graph.value(id).mesh, graph.value(id).layout);
}

std::string mesh_text(const Mesh& mesh) {
  bool is_default = mesh.devices == Mesh::of(mesh.axes).devices;
  return is_default ? print(mesh)
                    : cat(print(mesh), " [", join(mesh.devices, ", ", [](DeviceName d) { return print(d); }), "]");
}

class Printer {
 public:
  explicit Printer(bool with_sources = true) : with_sources_(with_sources) {}

  // Meshes of a region are printed only if they differ from those of the outer graph.
  void write(const Graph& graph, const std::vector<Mesh>& outer_meshes, const std::string& margin) {
    out_ += cat(margin, "graph ", graph_name(graph.name));
    if (!graph.arguments.empty())
      out_ += cat(
          "(", join(graph.arguments, ", ", [&](ValueId id) { return cat(value_name(id), ": ", type_text(graph, id)); }),
          ")");
    if (graph.meshes != outer_meshes)
      for (const Mesh& mesh : graph.meshes) out_ += cat(" ", mesh_text(mesh));
    out_ += " {\n";
    for (const Variable& v : graph.variables) {
      out_ += cat(margin, "  variable ", quote(v.name), " : ", type_text(graph, v.type, v.mesh, v.stored));
      if (v.read.valid()) out_ += cat(" read ", value_name(v.read));
      if (v.updated.valid()) out_ += cat(" updated ", value_name(v.updated));
      out_ += "\n";
    }
    for (const Node& node : graph.nodes) write(graph, node, cat(margin, "  "));
    for (const Output& output : graph.outputs) {
      out_ += cat(margin, "  output ", quote(output.name), " ", value_name(output.value));
      if (output.layout)
        out_ += cat(" : ", type_text(graph, graph.type(output.value), graph.value(output.value).mesh, output.layout));
      out_ += "\n";
    }
    out_ += cat(margin, "}\n");
  }

  std::string take() { return std::move(out_); }

 private:
  void write(const Graph& graph, const Node& node, const std::string& margin) {
    out_ += margin;
    if (!node.outputs.empty()) out_ += cat(join(node.outputs, ", ", value_name), " = ");
    out_ += cat(node.op->name, "(", join(node.inputs, ", ", value_name), ")");
    if (!node.attrs.empty()) out_ += cat(" ", node.attrs.print());
    if (!node.outputs.empty())
      out_ += cat(" : ", join(node.outputs, ", ", [&](ValueId id) { return type_text(graph, id); }));
    if (with_sources_ && !node.path.empty()) out_ += cat(" in ", quote(node.path));
    if (with_sources_ && !node.where.empty()) out_ += cat(" at ", quote(node.where));
    if (node.acts != 1) out_ += cat(" acts ", node.acts);
    for (const Attrs& attrs_of_act : node.act_attrs) out_ += cat(" ", attrs_of_act.print());
    if (node.setup) out_ += " setup";
    if (!node.after.empty())
      out_ += cat(" after ", join(node.after, " ", [](NodeId id) { return cat("n", id.index); }));
    if (!node.regions.empty()) {
      out_ += " regions {\n";
      for (const Graph& region : node.regions) write(region, graph.meshes, cat(margin, "  "));
      out_ += cat(margin, "}");
    }
    out_ += "\n";
  }

  bool with_sources_;
  std::string out_;
};

}  // namespace

std::string print(const Graph& graph) {
  Printer printer;
  printer.write(graph, Graph().meshes, "");
  return printer.take();
}

std::string print_without_sources(const Graph& graph) {
  Printer printer(false);
  printer.write(graph, Graph().meshes, "");
  return printer.take();
}

}  // namespace karez::graph
