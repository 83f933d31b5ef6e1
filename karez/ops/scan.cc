// scan and its gradient, a scan in the opposite direction that computes the body of each trip again and differentiates
// it.
#include "karez/ops/scan.h"

#include "karez/base/scanner.h"
#include "karez/base/text.h"
#include "karez/ops/build.h"
#include "karez/ops/compose.h"
#include "karez/ops/gradient.h"
#include "karez/ops/op_rows.h"

namespace karez::ops {
namespace {

std::vector<TensorType> parse_types(const std::string& text) {
  std::vector<TensorType> out;
  for (base::Scanner in(text, "rows"); !in.at_end();) out.push_back(parse_type(in));
  return out;
}

std::vector<TensorType> infer(std::span<const TensorType> in, const Attrs& attrs) {
  const ScanShape s = scan_shape(attrs);
  const auto carries = static_cast<std::size_t>(s.carries), sequences = static_cast<std::size_t>(s.sequences);
  require(s.trips >= 1, "scan: ", s.trips, " trips; there must be at least 1");
  require(in.size() >= carries + sequences, "scan: ", in.size(), " operands for ", carries, " carries and ", sequences,
          " sequences");
  for (std::size_t i = carries; i < carries + sequences; ++i)
    require(ErrorKind::shape, in[i].rank() >= 1 && in[i].shape[0] == s.trips, "scan: sequence ", i - carries, " is ",
            in[i], "; its first size must be ", s.trips, ", the number of trips");
  std::vector<TensorType> out(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(carries));
  for (const TensorType& row : s.rows) out.push_back(stacked(row, s.trips));
  return out;
}

// Nothing is split: scans are unrolled before layouts are chosen.
Signature index(const NodeView& node) {
  Signature s;
  for (const TensorType& type : node.in_types()) s.in.emplace_back(type.shape.size(), never_split);
  for (const TensorType& type : node.out_types()) s.out.emplace_back(type.shape.size(), never_split);
  return s;
}

// Appends the nodes of a body to the builder's graph. `now`: by value of the body; the arguments are set already.
void copy_nodes(Builder& b, const Graph& body, ById<ValueId, ValueId>& now) {
  for (const Node& node : body.nodes) {
    b.path = node.path, b.where = node.where;
    std::vector<ValueId> inputs;
    for (ValueId in : node.inputs) inputs.push_back(now[in]);
    const std::vector<ValueId> outputs = b.add(node.op->name, inputs, node.attrs);
    b.graph().nodes.back().regions = node.regions;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      now[node.outputs[i]] = outputs[i];
      b.graph().value(outputs[i]).layout = body.value(node.outputs[i]).layout;
    }
  }
}

// A region under construction.
struct Body {
  Graph graph;
  std::vector<ValueId> add_arguments(const std::vector<TensorType>& types) {
    std::vector<ValueId> out;
    for (const TensorType& type : types) {
      out.emplace_back(graph.values.size());
      graph.values.push_back({.producer = {}, .output = 0, .type = type, .mesh = 0, .layout = {}});
      graph.arguments.push_back(out.back());
    }
    return out;
  }
  void give(ValueId value) { graph.outputs.push_back({cat("out", graph.outputs.size()), value, std::nullopt}); }
};

Body empty_body(const Graph& like, std::string name) {
  Body out;
  out.graph.name = std::move(name);
  out.graph.meshes = like.meshes;
  return out;
}

std::vector<TensorType> types_of(const Graph& graph, std::span<const ValueId> ids) {
  std::vector<TensorType> out;
  for (ValueId id : ids) out.push_back(graph.type(id));
  return out;
}

// Differentiates one scan node. It considers floats alone: other values have no gradient.
class Backward {
 public:
  Backward(Builder& b, const NodeView& view, std::span<const ValueId> dy)
      : b_(b),
        body_(view.node().regions.at(0)),
        inputs_(view.node().inputs),
        s_(scan_shape(view.attrs())),
        dy_(dy.begin(), dy.end()),
        carries_(static_cast<std::size_t>(s_.carries)),
        sequences_(static_cast<std::size_t>(s_.sequences)) {}

  std::vector<ValueId> run() {
    const std::vector<ValueId> before = carries_before();
    ScanShape shape{.trips = s_.trips, .reverse = !s_.reverse};
    std::vector<ValueId> operands, sequences = before;
    for (std::size_t i = 0; i < inputs_.size();
         ++i)  // gradients that pass from trip to trip: of carries, and sums for outer values
      if (carried(i)) operands.push_back(i < carries_ && dy_[i].valid() ? dy_[i] : build::full_like(b_, inputs_[i], 0));
    shape.carries = static_cast<int>(operands.size());
    sequences.insert(sequences.end(), inputs_.begin() + at(carries_), inputs_.begin() + at(carries_ + sequences_));
    for (std::size_t y = carries_; y < dy_.size(); ++y)
      if (dy_[y].valid()) sequences.push_back(dy_[y]);
    shape.sequences = static_cast<int>(sequences.size());
    operands.insert(operands.end(), sequences.begin(), sequences.end());
    operands.insert(operands.end(), inputs_.begin() + at(carries_ + sequences_), inputs_.end());
    Graph body = backward_body(operands, shape);
    for (std::size_t i = carries_; i < carries_ + sequences_; ++i)
      if (is_a_float(i)) shape.rows.push_back(row_of(b_.type(inputs_[i])));
    return by_operand(build::scan(b_, std::move(body), operands, shape));
  }

 private:
  static std::ptrdiff_t at(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }
  bool is_a_float(std::size_t operand) const { return is_float(b_.type(inputs_[operand]).dtype); }
  bool is_sequence(std::size_t operand) const { return operand >= carries_ && operand < carries_ + sequences_; }
  bool carried(std::size_t operand) const { return is_a_float(operand) && !is_sequence(operand); }

  // The same scan, which also returns the carries before each trip. A later pass merges the repeated computation.
  std::vector<ValueId> carries_before() {
    Graph body = body_;
    ScanShape shape = s_;
    std::size_t place = carries_ + s_.rows.size();
    for (std::size_t i = 0; i < carries_; ++i) {
      body.outputs.push_back({cat("out", place++), body.arguments[i], std::nullopt});
      shape.rows.push_back(b_.type(inputs_[i]));
    }
    const std::vector<ValueId> out = build::scan(b_, std::move(body), inputs_, shape);
    return {out.end() - at(carries_), out.end()};
  }

  Graph backward_body(std::span<const ValueId> operands, const ScanShape& shape) {
    Body out = empty_body(body_, cat(body_.name, ".grad"));
    std::vector<TensorType> types = types_of(b_.graph(), operands);
    const auto first = static_cast<std::size_t>(shape.carries);
    for (std::size_t i = first; i < first + static_cast<std::size_t>(shape.sequences); ++i) types[i] = row_of(types[i]);
    const std::vector<ValueId> arguments = out.add_arguments(types);
    // After the carried gradients: carries, rows of the sequences, gradients of the returned rows, outer values.
    std::size_t next = first;
    ById<ValueId, ValueId> now(body_.values.size());
    for (std::size_t i = 0; i < carries_ + sequences_; ++i) now[body_.arguments[i]] = arguments[next++];
    std::vector<ValueId> of_rows;
    for (std::size_t y = carries_; y < dy_.size(); ++y)
      of_rows.push_back(dy_[y].valid() ? arguments[next++] : ValueId());
    for (std::size_t i = carries_ + sequences_; i < inputs_.size(); ++i) now[body_.arguments[i]] = arguments[next++];

    Builder b(out.graph, b_.ops());
    copy_nodes(b, body_, now);
    std::vector<ValueId> wanted, gradient_of(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (is_a_float(i)) wanted.push_back(now[body_.arguments[i]]);
    const std::vector<ValueId> gradients = gradient(b, product(b, arguments, of_rows, now), wanted);
    for (std::size_t i = 0, g = 0; i < inputs_.size(); ++i)
      if (is_a_float(i)) gradient_of[i] = gradients[g++];
    for (std::size_t i = 0, carry = 0; i < inputs_.size(); ++i)
      if (carried(i)) {
        const ValueId sum = arguments[carry++];
        out.give(i < carries_ ? gradient_of[i] : build::add(b, sum, gradient_of[i]));
      }
    for (std::size_t i = carries_; i < carries_ + sequences_; ++i)
      if (is_a_float(i)) out.give(gradient_of[i]);
    return std::move(out.graph);
  }

  // The sum of the trip's results times their gradients: the scalar to differentiate.
  ValueId product(Builder& b, std::span<const ValueId> arguments, std::span<const ValueId> of_rows,
                  const ById<ValueId, ValueId>& now) const {
    ValueId sum;
    const auto add = [&](ValueId value, ValueId gradient) {
      ValueId part = build::sum(b, build::mul(b, value, gradient));
      if (sum.valid() && b.type(part) != b.type(sum)) part = build::cast(b, part, b.type(sum).dtype);
      sum = sum.valid() ? build::add(b, sum, part) : part;
    };
    std::size_t carry = 0;
    for (std::size_t i = 0; i < carries_; ++i)
      if (carried(i)) add(now[body_.outputs[i].value], arguments[carry++]);
    for (std::size_t y = 0; y < of_rows.size(); ++y)
      if (of_rows[y].valid()) add(now[body_.outputs[carries_ + y].value], of_rows[y]);
    return sum;
  }

  std::vector<ValueId> by_operand(const std::vector<ValueId>& made) const {
    std::vector<ValueId> out(inputs_.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (carried(i)) out[i] = made[next++];
    for (std::size_t i = carries_; i < carries_ + sequences_; ++i)
      if (is_a_float(i)) out[i] = made[next++];
    return out;
  }

  Builder& b_;
  const Graph body_;  // copies: adding nodes moves others
  const std::vector<ValueId> inputs_;
  const ScanShape s_;
  const std::vector<ValueId> dy_;
  const std::size_t carries_, sequences_;
};

}  // namespace

ScanShape scan_shape(const Attrs& attrs) {
  return {.carries = static_cast<int>(attrs.integer("carries")),
          .sequences = static_cast<int>(attrs.integer("sequences")),
          .trips = attrs.integer("trips"),
          .reverse = attrs.flag("reverse", false),
          .rows = parse_types(attrs.text("rows"))};
}

TensorType stacked(const TensorType& row, std::int64_t trips) {
  TensorType out = row;
  out.shape.insert(out.shape.begin(), trips);
  return out;
}
TensorType row_of(const TensorType& sequence) {
  return {sequence.dtype, Shape(sequence.shape.begin() + 1, sequence.shape.end())};
}

std::vector<ValueId> build::scan(Builder& b, Graph body, std::span<const ValueId> operands, const ScanShape& shape) {
  Attrs attrs;
  attrs.set("carries", shape.carries).set("sequences", shape.sequences).set("trips", shape.trips);
  if (shape.reverse) attrs.set("reverse", true);
  attrs.set("rows", Attr(join(shape.rows, " ", [](const TensorType& row) { return print(row); })));
  std::vector<ValueId> out = b.add("scan", operands, std::move(attrs));
  b.graph().nodes.back().regions.push_back(std::move(body));
  return out;
}

std::vector<OpDef> scan_ops() {
  return {{.name = "scan",
           .doc = "Runs its region once for each row of its sequences, with the carries of the previous run; see "
                  "karez/ops/scan.h.",
           .inputs = -1,
           .infer = infer,
           .index = index,
           .grad = [](Builder& b, const NodeView& view, std::span<const ValueId> dy) {
             return Backward(b, view, dy).run();
           }}};
}

}  // namespace karez::ops
