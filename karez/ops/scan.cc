// scan and its gradient. The gradient is a scan in the opposite direction: in each trip, it computes the body again and
// differentiates it.
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
  require(s.trips >= 1, "scan: the number of trips must be at least 1, got ", s.trips);
  require(in.size() >= carries + sequences, "scan: expected at least ", carries, " carries and ", sequences,
          " sequences, got ", in.size(), " operands");
  for (std::size_t i = carries; i < carries + sequences; ++i)
    require(ErrorKind::shape, in[i].rank() >= 1 && in[i].shape[0] == s.trips, "scan: sequence ", i - carries, " is ",
            in[i], "; its first size must be ", s.trips, ", the number of trips");
  std::vector<TensorType> out(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(carries));
  for (const TensorType& row : s.rows) out.push_back(stacked(row, s.trips));
  return out;
}

// No dimension is split, because scans are unrolled before layouts are chosen.
Signature index(const NodeView& node) {
  Signature s;
  for (const TensorType& type : node.in_types()) s.in.emplace_back(type.shape.size(), never_split);
  for (const TensorType& type : node.out_types()) s.out.emplace_back(type.shape.size(), never_split);
  return s;
}

// Appends the nodes of a body to the builder's graph. `mapped` has the new value for each value of the body; the
// caller sets those of the arguments.
void copy_nodes(Builder& b, const Graph& body, ById<ValueId, ValueId>& mapped) {
  for (const Node& node : body.nodes) {
    b.path = node.path, b.where = node.where;
    std::vector<ValueId> inputs;
    for (ValueId in : node.inputs) inputs.push_back(mapped[in]);
    const std::vector<ValueId> outputs = b.add(node.op->name, inputs, node.attrs);
    b.graph().nodes.back().regions = node.regions;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      mapped[node.outputs[i]] = outputs[i];
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
  void add_output(ValueId value) { graph.outputs.push_back({cat("out", graph.outputs.size()), value, std::nullopt}); }
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

// Differentiates a scan node. Only floats have gradients.
class ScanGradient {
 public:
  ScanGradient(Builder& b, const NodeView& view, std::span<const ValueId> dy)
      : b_(b),
        body_(view.node().regions.at(0)),
        inputs_(view.node().inputs),
        s_(scan_shape(view.attrs())),
        dy_(dy.begin(), dy.end()),
        carries_(static_cast<std::size_t>(s_.carries)),
        sequences_(static_cast<std::size_t>(s_.sequences)) {}

  std::vector<ValueId> run() {
    const std::vector<ValueId> old_carries = compute_old_carries();
    ScanShape shape{.trips = s_.trips, .reverse = !s_.reverse};
    std::vector<ValueId> operands, sequences = old_carries;
    for (std::size_t i = 0; i < inputs_.size();
         ++i)  // gradients that pass from trip to trip: those of carries, and sums for outer values
      if (is_carried(i))
        operands.push_back(i < carries_ && dy_[i].valid() ? dy_[i] : build::full_like(b_, inputs_[i], 0));
    shape.carries = static_cast<int>(operands.size());
    sequences.insert(sequences.end(), inputs_.begin() + offset(carries_),
                     inputs_.begin() + offset(carries_ + sequences_));
    for (std::size_t y = carries_; y < dy_.size(); ++y)
      if (dy_[y].valid()) sequences.push_back(dy_[y]);
    shape.sequences = static_cast<int>(sequences.size());
    operands.insert(operands.end(), sequences.begin(), sequences.end());
    operands.insert(operands.end(), inputs_.begin() + offset(carries_ + sequences_), inputs_.end());
    Graph body = backward_body(operands, shape);
    for (std::size_t i = carries_; i < carries_ + sequences_; ++i)
      if (is_float_operand(i)) shape.rows.push_back(row_of(b_.type(inputs_[i])));
    return by_operand(build::scan(b_, std::move(body), operands, shape));
  }

 private:
  static std::ptrdiff_t offset(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }
  bool is_float_operand(std::size_t operand) const { return is_float(b_.type(inputs_[operand]).dtype); }
  bool is_sequence(std::size_t operand) const { return operand >= carries_ && operand < carries_ + sequences_; }
  bool is_carried(std::size_t operand) const { return is_float_operand(operand) && !is_sequence(operand); }

  // Adds a copy of the scan that also returns the carries before each trip. A later pass merges equal computations.
  std::vector<ValueId> compute_old_carries() {
    Graph body = body_;
    ScanShape shape = s_;
    std::size_t number = carries_ + s_.rows.size();
    for (std::size_t i = 0; i < carries_; ++i) {
      body.outputs.push_back({cat("out", number++), body.arguments[i], std::nullopt});
      shape.rows.push_back(b_.type(inputs_[i]));
    }
    const std::vector<ValueId> out = build::scan(b_, std::move(body), inputs_, shape);
    return {out.end() - offset(carries_), out.end()};
  }

  Graph backward_body(std::span<const ValueId> operands, const ScanShape& shape) {
    Body out = empty_body(body_, cat(body_.name, ".grad"));
    std::vector<TensorType> types = types_of(b_.graph(), operands);
    const auto first = static_cast<std::size_t>(shape.carries);
    for (std::size_t i = first; i < first + static_cast<std::size_t>(shape.sequences); ++i) types[i] = row_of(types[i]);
    const std::vector<ValueId> arguments = out.add_arguments(types);
    // Arguments after the carried gradients: carries, rows of sequences, gradients of the returned rows, outer values.
    std::size_t next = first;
    ById<ValueId, ValueId> mapped(body_.values.size());
    for (std::size_t i = 0; i < carries_ + sequences_; ++i) mapped[body_.arguments[i]] = arguments[next++];
    std::vector<ValueId> row_gradients;
    for (std::size_t y = carries_; y < dy_.size(); ++y)
      row_gradients.push_back(dy_[y].valid() ? arguments[next++] : ValueId());
    for (std::size_t i = carries_ + sequences_; i < inputs_.size(); ++i) mapped[body_.arguments[i]] = arguments[next++];

    Builder b(out.graph, b_.ops());
    copy_nodes(b, body_, mapped);
    std::vector<ValueId> float_arguments, gradient_of(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (is_float_operand(i)) float_arguments.push_back(mapped[body_.arguments[i]]);
    const std::vector<ValueId> gradients = gradient(b, product(b, arguments, row_gradients, mapped), float_arguments);
    for (std::size_t i = 0, g = 0; i < inputs_.size(); ++i)
      if (is_float_operand(i)) gradient_of[i] = gradients[g++];
    for (std::size_t i = 0, carry = 0; i < inputs_.size(); ++i)
      if (is_carried(i)) {
        const ValueId sum = arguments[carry++];
        out.add_output(i < carries_ ? gradient_of[i] : build::add(b, sum, gradient_of[i]));
      }
    for (std::size_t i = carries_; i < carries_ + sequences_; ++i)
      if (is_float_operand(i)) out.add_output(gradient_of[i]);
    return std::move(out.graph);
  }

  // Returns the scalar to differentiate: the sum of the results of the trip times their gradients.
  ValueId product(Builder& b, std::span<const ValueId> arguments, std::span<const ValueId> row_gradients,
                  const ById<ValueId, ValueId>& mapped) const {
    ValueId sum;
    const auto add = [&](ValueId value, ValueId gradient) {
      ValueId part = build::sum(b, build::mul(b, value, gradient));
      if (sum.valid() && b.type(part) != b.type(sum)) part = build::cast(b, part, b.type(sum).dtype);
      sum = sum.valid() ? build::add(b, sum, part) : part;
    };
    std::size_t carry = 0;
    for (std::size_t i = 0; i < carries_; ++i)
      if (is_carried(i)) add(mapped[body_.outputs[i].value], arguments[carry++]);
    for (std::size_t y = 0; y < row_gradients.size(); ++y)
      if (row_gradients[y].valid()) add(mapped[body_.outputs[carries_ + y].value], row_gradients[y]);
    return sum;
  }

  // Returns the gradient of each operand from the results of the backward scan; integers get invalid ids.
  std::vector<ValueId> by_operand(const std::vector<ValueId>& results) const {
    std::vector<ValueId> out(inputs_.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (is_carried(i)) out[i] = results[next++];
    for (std::size_t i = carries_; i < carries_ + sequences_; ++i)
      if (is_float_operand(i)) out[i] = results[next++];
    return out;
  }

  Builder& b_;
  const Graph body_;  // copies, because adding nodes moves existing ones
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
           .doc = "Runs its region once for each row of its sequences, with the carries of the previous run. See "
                  "karez/ops/scan.h.",
           .inputs = -1,
           .infer = infer,
           .index = index,
           .grad = [](Builder& b, const NodeView& view, std::span<const ValueId> dy) {
             return ScanGradient(b, view, dy).run();
           }}};
}

}  // namespace karez::ops
