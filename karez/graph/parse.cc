// Parses the text of a graph; errors report line and column.
#include "karez/base/scanner.h"
#include "karez/graph/op.h"

namespace karez::graph {
namespace {

// A type whose layout still has the names of mesh axes, because the text names the mesh after the type.
struct ParsedType {
  Scanner position;  // position in the text, for errors
  TensorType type;
  bool has_layout = false;  // the text gives a layout
  std::vector<std::pair<std::string, Sbp>> entries;
};

struct PlacedType {
  TensorType type;
  int mesh = 0;
  std::optional<Layout> layout;
};

class Parser {
 public:
  Parser(std::string_view text, const OpTable& ops) : in_(text, "graph"), length_(text.size()), ops_(ops) {}

  Graph parse_all() {
    Graph graph = parse(Graph().meshes);
    if (!in_.at_end()) in_.fail_here("unexpected text after the graph");
    return graph;
  }

 private:
  Graph parse(const std::vector<Mesh>& outer_meshes) {
    if (++nested_ > 50) in_.fail_here("regions are nested too deeply");
    Graph graph;
    keyword("graph");
    graph.name = in_.peek("\"") ? in_.quoted() : in_.word();
    // Arguments precede the meshes to which their types refer, so the text of the arguments is read twice.
    Scanner arguments = in_;
    bool has_arguments = in_.accept("(");
    if (has_arguments) skip_arguments();
    graph.meshes.clear();
    while (in_.peek("mesh(")) graph.meshes.push_back(mesh());
    if (graph.meshes.empty()) {
      for (const Mesh& mesh : outer_meshes) count_devices(mesh.size());
      graph.meshes = outer_meshes;
    }
    if (has_arguments) {
      Scanner after_meshes = in_;
      in_ = arguments;
      parse_arguments(graph);
      in_ = after_meshes;
    }
    in_.expect("{");
    std::vector<std::pair<Scanner, ValueId>> unresolved;  // values that variables refer to before their definition
    while (!in_.accept("}")) {
      if (in_.at_end()) in_.fail_here("expected '}'");
      if (accept_line("variable")) {
        variable(graph, unresolved);
      } else if (accept_line("output")) {
        std::string name = in_.quoted();
        output(graph, std::move(name));
      } else {
        node(graph);
      }
    }
    for (auto& [position, id] : unresolved)
      if (!is_defined(graph, id)) position.fail_here("no node defines this value");
    --nested_;
    return graph;
  }

  void keyword(std::string_view word) {
    Scanner start = in_;
    if (!in_.peek_name() || in_.word() != word) start.fail_here(cat("expected '", word, "'"));
  }

  bool accept_keyword(std::string_view word) {
    Scanner start = in_;
    if (in_.peek_name() && in_.word() == word) return true;
    in_ = start;
    return false;
  }

  // `variable "w"` and `output "y"` are declarations; `variable()` is a node.
  bool accept_line(std::string_view word) {
    Scanner start = in_;
    if (accept_keyword(word) && in_.peek("\"")) return true;
    in_ = start;
    return false;
  }

  // Calls a function and adds the position to the errors that it throws.
  template <class Act> static auto with_position(const Scanner& position, Act act) -> decltype(act()) {
    std::string message;
    try {
      return act();
    } catch (const Error& error) { message = error.what(); }
    position.fail_here(message);
  }

  Mesh mesh() {
    Scanner start = in_;
    in_.expect("mesh(");
    std::vector<MeshAxis> axes;
    while (!in_.accept(")")) {
      if (!axes.empty()) in_.expect(",");
      std::string name = in_.name();
      in_.expect("=");
      axes.push_back({std::move(name), small_int()});
    }
    std::int64_t size = 1;
    for (const MeshAxis& axis : axes) size = with_position(start, [&] { return checked_mul(size, axis.size); });
    count_devices(size);
    Mesh mesh = with_position(start, [&] { return Mesh::of(axes); });
    if (in_.accept("[")) {
      std::vector<DeviceName> devices;
      while (!in_.accept("]")) {
        if (!devices.empty()) in_.expect(",");
        int rank = small_int();
        in_.expect(":");
        devices.push_back({rank, small_int()});
      }
      if (devices.size() != mesh.devices.size())
        start.fail_here(cat("the mesh has ", mesh.devices.size(), " devices, but lists ", devices.size()));
      mesh.devices = std::move(devices);
    }
    return mesh;
  }

  void count_devices(std::int64_t count) {
    devices_ = checked_add(devices_, count);
    if (devices_ > max_devices)
      in_.fail_here(cat("the meshes of the graph and its regions have more than ", max_devices, " devices"));
  }

  int small_int() {
    Scanner start = in_;
    std::int64_t value = in_.integer();
    if (value < 0 || value > 1'000'000'000) start.fail_here("expected a number from 0 to 1000000000");
    return static_cast<int>(value);
  }

  // Parses "%12". A text of n characters defines fewer than n values. Larger numbers are rejected, so a mistyped digit
  // cannot exhaust the memory.
  ValueId value_name() {
    Scanner start = in_;
    in_.expect("%");
    int index = small_int();
    if (static_cast<std::size_t>(index) >= length_)
      start.fail_here("the number of a value exceeds the length of the text");
    return ValueId(index);
  }

  static bool is_defined(const Graph& graph, ValueId id) {
    if (!graph.values.has(id)) return false;
    if (graph.value(id).producer.valid()) return true;
    for (ValueId argument : graph.arguments)
      if (argument == id) return true;
    return false;
  }

  ValueId defined_value(const Graph& graph) {
    in_.skip_space();
    Scanner start = in_;
    ValueId id = value_name();
    if (!is_defined(graph, id)) start.fail_here("a value is used before it is defined");
    return id;
  }

  void output(Graph& graph, std::string name) {
    ValueId value = defined_value(graph);
    std::optional<Layout> layout;
    in_.skip_space();
    Scanner start = in_;
    if (in_.accept(":")) {
      PlacedType placed = placed_type(graph);
      if (placed.type != graph.type(value) || placed.mesh != graph.value(value).mesh || !placed.layout)
        start.fail_here(
            cat("the type of output %", value, " must be ", graph.type(value), " with a layout on its mesh"));
      layout = std::move(placed.layout);
    }
    graph.outputs.push_back({std::move(name), value, std::move(layout)});
  }

  ValueId new_value(Graph& graph) {
    in_.skip_space();
    Scanner start = in_;
    ValueId id = value_name();
    if (is_defined(graph, id)) start.fail_here("a value is defined twice");
    std::size_t size = static_cast<std::size_t>(id.index) + 1;
    if (size > graph.values.size()) {
      values_ += size - graph.values.size();
      if (values_ > length_)
        start.fail_here("the value numbers of the graph and its regions exceed the length of the text");
      graph.values.resize(size);
    }
    return id;
  }

  void skip_arguments() {
    do {
      value_name();
      in_.expect(":");
      type();
      mesh_index();
    } while (in_.accept(","));
    in_.expect(")");
  }

  void parse_arguments(Graph& graph) {
    in_.expect("(");
    do {
      ValueId id = new_value(graph);
      in_.expect(":");
      PlacedType placed = placed_type(graph);
      graph.value(id) = {NodeId(), 0, std::move(placed.type), placed.mesh, std::move(placed.layout)};
      graph.arguments.push_back(id);
    } while (in_.accept(","));
    in_.expect(")");
  }

  // Parses "f32[64@data, 10; sum@model]", and with several axes "[8@data@model, 4]" or "; sum@data@model".
  ParsedType type() {
    in_.skip_space();
    ParsedType out{in_, {}, false, {}};
    out.type.dtype = with_position(out.position, [&] { return dtype_from(in_.word()); });
    auto axes = [&](Sbp entry) {
      while (in_.accept("@")) {
        out.entries.emplace_back(in_.name(), entry);
        out.has_layout = true;
      }
    };
    in_.expect("[");
    while (!in_.peek("]") && !in_.peek(";")) {
      if (!out.type.shape.empty()) in_.expect(",");
      Scanner start = in_;
      out.type.shape.push_back(in_.integer());
      if (out.type.shape.back() < 0) start.fail_here(cat("a size must be at least 0, got ", out.type.shape.back()));
      axes(S(static_cast<int>(out.type.shape.size()) - 1));
    }
    if (in_.accept(";")) {
      out.has_layout = true;
      while (!in_.peek("]")) {
        in_.accept(",");
        Scanner start = in_;
        std::string kind = in_.word();
        const std::optional<Reduce> reduce = reduce_from(kind);
        if (!reduce) start.fail_here("expected sum, max or min");
        if (!in_.peek("@")) in_.expect("@");
        axes(P(*reduce));
      }
    }
    in_.expect("]");
    return out;
  }

  int mesh_index() {
    if (!accept_keyword("on")) return 0;
    in_.expect("mesh");
    return small_int();
  }

  PlacedType placed_type(const Graph& graph) {
    ParsedType parsed_type = type();
    PlacedType out{parsed_type.type, mesh_index(), std::nullopt};
    if (static_cast<std::size_t>(out.mesh) >= graph.meshes.size())
      parsed_type.position.fail_here(cat("mesh", out.mesh, " does not exist; number of meshes: ", graph.meshes.size()));
    if (!parsed_type.has_layout) return out;
    const Mesh& mesh = graph.meshes[static_cast<std::size_t>(out.mesh)];
    out.layout = broadcast_layout(mesh);
    for (const auto& [name, entry] : parsed_type.entries) {
      int axis =
          with_position(parsed_type.position, [&, axis_name = std::string_view(name)] { return mesh.axis(axis_name); });
      Sbp& sbp = (*out.layout)[static_cast<std::size_t>(axis)];
      if (!sbp.is_broadcast()) parsed_type.position.fail_here(cat("the axis '", name, "' is used twice"));
      sbp = entry;
    }
    return out;
  }

  void variable(Graph& graph, std::vector<std::pair<Scanner, ValueId>>& unresolved) {
    Variable v;
    v.name = in_.quoted();
    in_.expect(":");
    PlacedType placed = placed_type(graph);
    v.type = std::move(placed.type);
    v.mesh = placed.mesh;
    v.stored = std::move(placed.layout);
    auto value = [&] {
      in_.skip_space();
      Scanner start = in_;
      ValueId id = value_name();
      unresolved.emplace_back(start, id);
      return id;
    };
    if (accept_keyword("read")) v.read = value();
    if (accept_keyword("updated")) v.updated = value();
    graph.variables.push_back(std::move(v));
  }

  void node(Graph& graph) {
    Node node;
    NodeId id(graph.nodes.size());
    while (in_.peek("%")) {
      ValueId result = new_value(graph);
      graph.value(result).producer = id;
      graph.value(result).output = static_cast<int>(node.outputs.size());
      node.outputs.push_back(result);
      if (!in_.accept(",")) break;
    }
    if (!node.outputs.empty()) in_.expect("=");
    in_.skip_space();
    Scanner start = in_;
    node.op = with_position(start, [&] { return &ops_.at(in_.word()); });
    in_.expect("(");
    while (!in_.accept(")")) {
      if (!node.inputs.empty()) in_.expect(",");
      in_.skip_space();
      Scanner operand = in_;
      node.inputs.push_back(defined_value(graph));
      if (graph.value(node.inputs.back()).producer == id) operand.fail_here("a value is used before it is defined");
    }
    if (in_.peek("{")) node.attrs = Attrs::parse(in_);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      in_.expect(i == 0 ? ":" : ",");
      PlacedType placed = placed_type(graph);
      Value& value = graph.value(node.outputs[i]);
      value.type = std::move(placed.type);
      value.mesh = placed.mesh;
      value.layout = std::move(placed.layout);
    }
    if (accept_keyword("in")) node.path = in_.quoted();
    if (accept_keyword("at")) node.where = in_.quoted();
    if (accept_keyword("acts")) {
      node.acts = small_int();
      while (in_.peek("{")) node.act_attrs.push_back(Attrs::parse(in_));
    }
    node.setup = accept_keyword("setup");
    if (accept_keyword("after")) {
      do {
        in_.expect("n");
        node.after.emplace_back(small_int());
      } while (is_node_name());
    }
    if (accept_keyword("regions")) {
      in_.expect("{");
      while (!in_.accept("}")) node.regions.push_back(parse(graph.meshes));
    }
    graph.nodes.push_back(std::move(node));
  }

  bool is_node_name() {  // "n12", unless it is the op of the next line
    Scanner lookahead = in_;
    if (!lookahead.peek_name()) return false;
    std::string word = lookahead.word();
    return word.size() > 1 && word[0] == 'n' && word.find_first_not_of("0123456789", 1) == std::string::npos &&
           !lookahead.peek("(");
  }

  Scanner in_;
  std::size_t length_;
  const OpTable& ops_;
  int nested_ = 0;
  // Limits for the complete text, including regions. They make a mistyped digit an error before it can exhaust the
  // memory.
  static constexpr std::int64_t max_devices = 1 << 20;
  std::int64_t devices_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

Graph parse_graph(std::string_view text, const OpTable& ops) { return Parser(text, ops).parse_all(); }

}  // namespace karez::graph
