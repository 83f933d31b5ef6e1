// Copies the body of each scan into the graph, once for each trip.
#include "karez/passes/logical/unroll.h"

#include <algorithm>
#include <map>

#include "karez/base/hash.h"
#include "karez/ops/build.h"
#include "karez/ops/scan.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

class Unroller {
 public:
  Unroller(const Graph& graph, const OpTable& ops) : graph_(graph), rewrite_(graph), b_(rewrite_.graph(), ops) {}

  Graph run() {
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.node(n);
      if (node.regions.empty()) {
        rewrite_.keep(n);
        continue;
      }
      std::vector<ValueId> operands;
      for (ValueId in : node.inputs) operands.push_back(rewrite_.at(in));
      b_.mesh = graph_.value(node.outputs[0]).mesh;
      const std::vector<ValueId> results = unroll_scan(node, operands, 0);
      for (std::size_t i = 0; i < results.size(); ++i) rewrite_.map(node.outputs[i], results[i]);
    }
    return rewrite_.finish();
  }

 private:
  // Returns the last carries and the stacks of one scan. `trips` is a hash of the trips of the enclosing scans.
  std::vector<ValueId> unroll_scan(const Node& node, const std::vector<ValueId>& operands, std::uint64_t trips) {
    const ops::ScanShape shape = ops::scan_shape(node.attrs);
    const Graph& body = node.regions.at(0);
    const auto carries = static_cast<std::size_t>(shape.carries), sequences = static_cast<std::size_t>(shape.sequences);
    std::vector<ValueId> carry(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(carries));
    std::vector<std::vector<ValueId>> rows(shape.rows.size(),
                                           std::vector<ValueId>(static_cast<std::size_t>(shape.trips)));
    for (std::int64_t i = 0; i < shape.trips; ++i) {
      const std::int64_t trip = shape.reverse ? shape.trips - 1 - i : i;
      std::vector<ValueId> arguments = carry;
      set_source_line(node);
      for (std::size_t input = carries; input < carries + sequences; ++input)
        arguments.push_back(row(operands[input], trip));
      arguments.insert(arguments.end(), operands.begin() + static_cast<std::ptrdiff_t>(carries + sequences),
                       operands.end());
      const std::vector<ValueId> out = run_trip(body, arguments, base::Hash().add(trips).add(trip).value());
      carry.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(carries));
      for (std::size_t output = 0; output < rows.size(); ++output)
        rows[output][static_cast<std::size_t>(trip)] = out[carries + output];
    }
    set_source_line(node);
    std::vector<ValueId> results = carry;
    for (const auto& column : rows) results.push_back(stack(column));
    return results;
  }

  std::vector<ValueId> run_trip(const Graph& body, const std::vector<ValueId>& arguments, std::uint64_t trips) {
    ById<ValueId, ValueId> new_values(body.values.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) new_values[body.arguments[i]] = arguments[i];
    for (const Node& node : body.nodes) {
      std::vector<ValueId> inputs;
      for (ValueId in : node.inputs) inputs.push_back(new_values[in]);
      set_source_line(node);
      const std::vector<ValueId> outputs = node.regions.empty()
                                               ? b_.add(node.op->name, inputs, attrs_of_trip(node.attrs, trips))
                                               : unroll_scan(node, inputs, trips);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        new_values[node.outputs[i]] = outputs[i];
        if (const auto& layout = body.value(node.outputs[i]).layout) b_.graph().value(outputs[i]).layout = layout;
      }
    }
    std::vector<ValueId> results;
    for (const Output& output : body.outputs) results.push_back(new_values[output.value]);
    return results;
  }

  static Attrs attrs_of_trip(Attrs attrs, std::uint64_t trips) {
    if (attrs.has("site"))
      attrs.set("site", static_cast<std::int64_t>(base::Hash().add(attrs.integer("site")).add(trips).value() >> 1));
    return attrs;
  }

  ValueId row(ValueId sequence, std::int64_t trip) {
    if (const auto stack = rows_of_stack_.find(sequence); stack != rows_of_stack_.end())
      return stack->second[static_cast<std::size_t>(trip)];
    ValueId& slice = slices_[{sequence, trip}];
    if (slice.valid()) return slice;
    const TensorType type = b_.type(sequence);
    Ints begin(type.shape.size(), 0), size(type.shape.begin(), type.shape.end());
    begin[0] = trip, size[0] = 1;
    return slice = ops::build::reshape(b_, ops::build::slice(b_, sequence, begin, size), ops::row_of(type).shape);
  }

  ValueId stack(const std::vector<ValueId>& rows) {
    std::vector<ValueId> reshaped;
    for (ValueId row : rows) reshaped.push_back(ops::build::reshape(b_, row, ops::stacked(b_.type(row), 1).shape));
    const ValueId result = reshaped.size() == 1 ? reshaped[0] : ops::build::concat(b_, reshaped, 0);
    rows_of_stack_[result] = rows;
    return result;
  }

  void set_source_line(const Node& node) { b_.path = node.path, b_.where = node.where; }

  const Graph& graph_;
  Rewrite rewrite_;
  Builder b_;
  std::map<ValueId, std::vector<ValueId>> rows_of_stack_;       // the rows of each stack
  std::map<std::pair<ValueId, std::int64_t>, ValueId> slices_;  // the slices of sequences, by sequence and trip
};

}  // namespace

Graph unroll(const Graph& graph, const OpTable& ops) { return Unroller(graph, ops).run(); }

}  // namespace karez::passes
