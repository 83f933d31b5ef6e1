// Copies the body of each scan into the graph once for each trip.
#include "karez/passes/logical/unroll.h"

#include <algorithm>
#include <map>

#include "karez/base/hash.h"
#include "karez/ops/build.h"
#include "karez/ops/scan.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

class Unrolling {
 public:
  Unrolling(const Graph& graph, const OpTable& ops) : graph_(graph), rewrite_(graph), b_(rewrite_.graph(), ops) {}

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
      const std::vector<ValueId> made = unrolled(node, operands, 0);
      for (std::size_t i = 0; i < made.size(); ++i) rewrite_.map(node.outputs[i], made[i]);
    }
    return rewrite_.finish();
  }

 private:
  // The last carries and the stacks of one scan. `trips`: hash of the trips of the enclosing scans.
  std::vector<ValueId> unrolled(const Node& node, const std::vector<ValueId>& operands, std::uint64_t trips) {
    const ops::ScanShape s = ops::scan_shape(node.attrs);
    const Graph& body = node.regions.at(0);
    const auto carries = static_cast<std::size_t>(s.carries), sequences = static_cast<std::size_t>(s.sequences);
    std::vector<ValueId> carry(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(carries));
    std::vector<std::vector<ValueId>> rows(s.rows.size(), std::vector<ValueId>(static_cast<std::size_t>(s.trips)));
    for (std::int64_t i = 0; i < s.trips; ++i) {
      const std::int64_t trip = s.reverse ? s.trips - 1 - i : i;
      std::vector<ValueId> arguments = carry;
      at_line_of(node);
      for (std::size_t x = carries; x < carries + sequences; ++x) arguments.push_back(row(operands[x], trip));
      arguments.insert(arguments.end(), operands.begin() + static_cast<std::ptrdiff_t>(carries + sequences),
                       operands.end());
      const std::vector<ValueId> out = one_trip(body, arguments, base::Hash().add(trips).add(trip).value());
      carry.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(carries));
      for (std::size_t y = 0; y < rows.size(); ++y) rows[y][static_cast<std::size_t>(trip)] = out[carries + y];
    }
    at_line_of(node);
    std::vector<ValueId> made = carry;
    for (const auto& each : rows) made.push_back(stack(each));
    return made;
  }

  std::vector<ValueId> one_trip(const Graph& body, const std::vector<ValueId>& arguments, std::uint64_t trips) {
    ById<ValueId, ValueId> now(body.values.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) now[body.arguments[i]] = arguments[i];
    for (const Node& node : body.nodes) {
      std::vector<ValueId> inputs;
      for (ValueId in : node.inputs) inputs.push_back(now[in]);
      at_line_of(node);
      const std::vector<ValueId> outputs = node.regions.empty()
                                               ? b_.add(node.op->name, inputs, of_trip(node.attrs, trips))
                                               : unrolled(node, inputs, trips);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        now[node.outputs[i]] = outputs[i];
        if (const auto& layout = body.value(node.outputs[i]).layout) b_.graph().value(outputs[i]).layout = layout;
      }
    }
    std::vector<ValueId> out;
    for (const Output& output : body.outputs) out.push_back(now[output.value]);
    return out;
  }

  static Attrs of_trip(Attrs attrs, std::uint64_t trips) {
    if (attrs.has("site"))
      attrs.set("site", static_cast<std::int64_t>(base::Hash().add(attrs.integer("site")).add(trips).value() >> 1));
    return attrs;
  }

  ValueId row(ValueId sequence, std::int64_t trip) {
    if (const auto known = stacks_.find(sequence); known != stacks_.end())
      return known->second[static_cast<std::size_t>(trip)];
    ValueId& out = rows_[{sequence, trip}];
    if (out.valid()) return out;
    const TensorType type = b_.type(sequence);
    Ints begin(type.shape.size(), 0), size(type.shape.begin(), type.shape.end());
    begin[0] = trip, size[0] = 1;
    return out = ops::build::reshape(b_, ops::build::slice(b_, sequence, begin, size), ops::row_of(type).shape);
  }

  ValueId stack(const std::vector<ValueId>& rows) {
    std::vector<ValueId> each;
    for (ValueId one : rows) each.push_back(ops::build::reshape(b_, one, ops::stacked(b_.type(one), 1).shape));
    const ValueId out = each.size() == 1 ? each[0] : ops::build::concat(b_, each, 0);
    stacks_[out] = rows;
    return out;
  }

  void at_line_of(const Node& node) { b_.path = node.path, b_.where = node.where; }

  const Graph& graph_;
  Rewrite rewrite_;
  Builder b_;
  std::map<ValueId, std::vector<ValueId>> stacks_;            // the rows of each stack
  std::map<std::pair<ValueId, std::int64_t>, ValueId> rows_;  // slices of sequences, by sequence and trip
};

}  // namespace

Graph unroll(const Graph& graph, const OpTable& ops) { return Unrolling(graph, ops).run(); }

}  // namespace karez::passes
