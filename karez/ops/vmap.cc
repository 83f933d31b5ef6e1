// Adds the nodes of a body with the dimension of the batch. Scans, whose bodies are mapped themselves, and random
// numbers have no row in the table of rules.
#include "karez/ops/vmap.h"

#include <algorithm>
#include <numeric>

#include "karez/ops/build.h"
#include "karez/ops/scan.h"
#include "karez/ops/vmap_rules.h"

namespace karez::ops {
namespace {

bool is_random(const Node& node) { return node.op->name == "random_uniform"; }

// Throws for a random node, also in a region, if no randomness was chosen.
void check_randomness(const Graph& body, NodeId id, Randomness randomness) {
  if (randomness != Randomness::error) return;
  const Node& node = body.node(id);
  if (is_random(node))
    fail(describe(body, id),
         ": vmap: random numbers in the function need randomness='same', if all elements of the batch get the same "
         "ones, or randomness='different'");
  for (const Graph& region : node.regions)
    for (std::size_t n = 0; n < region.nodes.size(); ++n) check_randomness(region, NodeId(n), randomness);
}

std::vector<ValueId> copy_node(Builder& b, const Node& node, const std::vector<MappedValue>& in) {
  std::vector<ValueId> inputs;
  for (const MappedValue& value : in) inputs.push_back(value.id);
  const std::vector<ValueId> out = b.add(node.op->name, inputs, node.attrs);
  b.graph().nodes.back().regions = node.regions;
  return out;
}

// Random numbers for the whole batch, of which a part takes its elements.
ValueId different_numbers(Builder& b, const Node& node, ValueId state, const MappedBatch& batch) {
  Attrs attrs = node.attrs;
  Shape shape = attrs.ints("shape");
  shape.insert(shape.begin(), batch.total);
  attrs.set("shape", shape);
  const ValueId numbers = b.one(node.op->name, {state}, attrs);
  if (batch.size == batch.total) return numbers;
  Ints begin(shape.size());
  begin[0] = batch.begin;
  shape[0] = batch.size;
  return build::slice(b, numbers, begin, shape);
}

// Returns which outputs of a body depend on mapped arguments or on different random numbers.
std::vector<bool> mapped_outputs(const Graph& body, const std::vector<bool>& arguments, Randomness randomness) {
  ById<ValueId, bool> depends(body.values.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) depends[body.arguments[i]] = arguments[i];
  for (const Node& node : body.nodes) {
    bool any = randomness == Randomness::different && is_random(node);
    for (ValueId in : node.inputs) any |= depends[in];
    for (const Graph& region : node.regions) {
      const auto outputs = mapped_outputs(region, std::vector<bool>(region.arguments.size()), randomness);
      any |= std::any_of(outputs.begin(), outputs.end(), [](bool is_mapped) { return is_mapped; });
    }
    for (ValueId out : node.outputs) depends[out] = any;
  }
  std::vector<bool> out;
  for (const graph::Output& output : body.outputs) out.push_back(depends[output.value]);
  return out;
}

// Swaps the first two dimensions: rows of a batch and a batch of rows.
ValueId swap_rows(Builder& b, ValueId x) {
  Ints perm(b.type(x).shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[0], perm[1]);
  return build::transpose(b, x, perm);
}

// A scan of a batch: carries that depend on the batch in any trip are mapped in all trips.
std::vector<MappedValue> map_scan(Builder& b, const Node& node, std::vector<MappedValue> in, const MappedBatch& batch) {
  const Graph& body = node.regions.at(0);
  ScanShape shape = scan_shape(node.attrs);
  const auto carries = static_cast<std::size_t>(shape.carries), rows = static_cast<std::size_t>(shape.sequences);
  std::vector<bool> is_mapped, outputs;
  for (const MappedValue& value : in) is_mapped.push_back(value.is_mapped);
  for (bool changed = true; changed;) {
    changed = false;
    outputs = mapped_outputs(body, is_mapped, batch.randomness);
    for (std::size_t i = 0; i < carries; ++i) {
      changed |= outputs[i] && !is_mapped[i];
      is_mapped[i] = is_mapped[i] || outputs[i];
    }
  }
  if (std::find(is_mapped.begin(), is_mapped.end(), true) == is_mapped.end() &&
      std::find(outputs.begin(), outputs.end(), true) == outputs.end()) {
    std::vector<MappedValue> out;
    for (ValueId id : copy_node(b, node, in)) out.push_back({id});
    return out;
  }
  std::vector<ValueId> operands;
  Graph region;
  region.name = body.name;
  region.meshes = body.meshes;
  std::vector<MappedValue> arguments;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const TensorType element = b.type(in[i].id);  // of a carry, which may not be mapped yet
    if (is_mapped[i]) in[i] = {mapped(b, in[i], element, batch.size), true};
    const bool is_sequence = i >= carries && i < carries + rows;
    operands.push_back(is_sequence && in[i].is_mapped ? swap_rows(b, in[i].id) : in[i].id);
    const TensorType type = is_sequence ? row_of(b.type(operands.back())) : b.type(operands.back());
    region.arguments.emplace_back(region.values.size());
    region.values.push_back({.producer = {}, .output = 0, .type = type, .mesh = 0, .layout = {}});
    arguments.push_back({region.arguments.back(), in[i].is_mapped});
  }
  Builder inner(region, b.ops());
  std::vector<MappedValue> results = vmap(inner, body, arguments, batch);
  shape.rows.clear();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TensorType element = body.type(body.outputs[i].value);
    if (i < carries && is_mapped[i]) results[i] = {mapped(inner, results[i], element, batch.size), true};
    if (i >= carries) shape.rows.push_back(inner.type(results[i].id));
    region.outputs.push_back({cat("out", i), results[i].id, std::nullopt});
  }
  std::vector<ValueId> out = build::scan(b, std::move(region), operands, shape);
  for (std::size_t i = 0; i < out.size(); ++i)
    results[i].id = i >= carries && results[i].is_mapped ? swap_rows(b, out[i]) : out[i];
  return results;
}

std::vector<MappedValue> map_node(Builder& b, const NodeView& view, const std::vector<MappedValue>& in,
                                  const MappedBatch& batch) {
  const Node& node = view.node();
  check_randomness(*view.graph, view.id, batch.randomness);
  if (node.op->name == "scan") return map_scan(b, node, in, batch);
  const bool any = std::any_of(in.begin(), in.end(), [](const MappedValue& value) { return value.is_mapped; });
  std::vector<MappedValue> out;
  if (is_random(node) && batch.randomness == Randomness::different && !any)
    return {{different_numbers(b, node, in.at(0).id, batch), true}};
  if (!any) {
    for (ValueId id : copy_node(b, node, in)) {
      b.graph().value(id).layout = view.graph->value(node.outputs[out.size()]).layout;
      out.push_back({id});
    }
    return out;
  }
  const VmapRule rule = vmap_rule(*node.op);
  if (rule == nullptr)
    fail(describe(*view.graph, view.id), ": vmap: op ", node.op->name,
         " has no rule for an operand with a mapped dimension; call it outside of the function that vmap maps");
  for (ValueId id : rule(b, {view, in, batch.size})) out.push_back({id, true});
  return out;
}

}  // namespace

std::vector<MappedValue> vmap(Builder& b, const Graph& body, std::span<const MappedValue> arguments,
                              const MappedBatch& batch) {
  require(arguments.size() == body.arguments.size(), "vmap: the body has ", body.arguments.size(), " arguments, got ",
          arguments.size());
  ById<ValueId, MappedValue> values(body.values.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) values[body.arguments[i]] = arguments[i];
  const std::string path = b.path, where = b.where;
  for (std::size_t n = 0; n < body.nodes.size(); ++n) {
    const NodeId id(n);
    const Node& node = body.node(id);
    b.path = node.path, b.where = node.where;
    std::vector<MappedValue> in;
    for (ValueId value : node.inputs) in.push_back(values[value]);
    const std::vector<MappedValue> out = map_node(b, {&body, id}, in, batch);
    for (std::size_t i = 0; i < out.size(); ++i) values[node.outputs[i]] = out[i];
  }
  b.path = path, b.where = where;
  std::vector<MappedValue> out;
  for (const graph::Output& output : body.outputs) out.push_back(values[output.value]);
  return out;
}

}  // namespace karez::ops
