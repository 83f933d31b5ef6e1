// Chooses the layouts of nodes in time, and the sums that are computed before the first micro-batch.
#include "karez/passes/logical/microbatch_layouts.h"

#include <algorithm>
#include <map>
#include <optional>

#include "karez/base/text.h"

namespace karez::passes {
namespace {

// The batch, and what earlier attempts to split it have found.
struct Batch {
  int count = 1;
  std::int64_t rows = 0;
  std::set<NodeId> aligned_inputs;  // inputs whose dimension 0 is not `rows`, split in time like the batch
  std::set<NodeId> early;           // sums over the whole batch that are computed before the first micro-batch
};

// Throws if `count` does not divide the batch; the error names the nearest counts that divide it.
void require_divides(std::int64_t batch, int count) {
  if (batch % count == 0) return;
  std::vector<std::int64_t> nearest;
  for (std::int64_t below = std::min<std::int64_t>(count, batch); below > 0 && nearest.empty(); --below)
    if (batch % below == 0) nearest.push_back(below);
  for (std::int64_t above = count; above <= batch && nearest.size() == 1; ++above)
    if (batch % above == 0) nearest.push_back(above);
  fail("microbatches=", count, " does not divide the batch of ", batch, "; nearest divisors: ", join(nearest, ", "));
}

bool is_unbatched(const Node& node) { return node.attrs.flag("unbatched", false); }

// One attempt to split the batch.
class BatchSplitter {
 public:
  BatchSplitter(const Graph& graph, const Batch& batch)
      : graph_(graph),
        aligned_inputs_(batch.aligned_inputs),
        uses_(uses_of(graph)) {
    layouts_.count = batch.count;
    layouts_.batch = batch.rows;
    layouts_.early = batch.early;
    layouts_.time.resize(graph.values.size());
    layouts_.splits.resize(graph.nodes.size());
    layouts_.is_read_whole.assign(graph.values.size(), false);
    layouts_.is_whole_source.assign(graph.nodes.size(), false);
    find_batch();
    for (NodeId n : graph_.nodes.ids()) place(n);
    for (NodeId n : layouts_.early) mark_whole_sources(n);
  }

  MicrobatchLayouts& layouts() { return layouts_; }
  // Inputs that are Broadcast in time although nodes read parts of them, as labels [64 * 10] next to a batch of 64.
  const std::set<NodeId>& inputs_read_in_parts() const { return inputs_read_in_parts_; }
  // Sums that must be computed early and are not yet in Batch::early.
  const std::set<NodeId>& pending_sums() const { return pending_sums_; }

 private:
  void find_batch() {
    std::vector<std::string> names;
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.node(n);
      if (node.op->role != Role::source) continue;
      const Shape& shape = graph_.type(node.outputs[0]).shape;
      if (shape.empty() || is_unbatched(node)) continue;
      if (layouts_.batch == 0 && names.empty()) layouts_.batch = shape[0];
      if (shape[0] == layouts_.batch) names.push_back(cat("'", node.attrs.text("name"), "'"));
      if (node.attrs.has("groups")) layouts_.groups = node.attrs.integer("groups");
    }
    require(layouts_.batch > 0 && !names.empty(), "microbatches=", layouts_.count, ", but no input of '", graph_.name,
            "' has a batch (a dimension 0 that is not empty)");
    require_divides(layouts_.batch, layouts_.count);
    layouts_.batch_text =
        cat("; the batch of ", layouts_.batch, " is dimension 0 of ", names.size() == 1 ? "input " : "the inputs ",
            join(names, ", "),
            names.size() == 1 ? "" : "; an input of this length that is not a batch must be declared as unbatched");
  }

  TimeLayout& time(ValueId value) { return layouts_.time[value]; }
  const TimeLayout& time(ValueId value) const { return layouts_.time[value]; }
  bool waits_for_sum(ValueId value) const { return time(value).awaited_sum.valid(); }
  bool is_early(NodeId n) const { return layouts_.early.count(n) > 0; }
  std::vector<Sharding> shardings_of(NodeId n) const { return shardings_in_time(graph_, n, layouts_.count); }

  void place(NodeId n) {
    const Node& node = graph_.node(n);
    if (node.op->role == Role::source) {
      const Shape& shape = graph_.type(node.outputs[0]).shape;
      if (!shape.empty() && !is_unbatched(node) && (shape[0] == layouts_.batch || aligned_inputs_.count(n) > 0))
        split(n, {{}, {S(0)}});
      return;
    }
    if (is_early(n)) return;
    bool any_split = false, all_partial = !node.inputs.empty();
    for (ValueId in : node.inputs) {
      any_split = any_split || time(in).layout.is_split();
      all_partial = all_partial && time(in).layout.is_partial() && uses_[in].size() == 1 && !is_result(in);
    }
    const bool writes = node.op->role == Role::update || node.op->role == Role::store;
    if (any_split && !writes) {
      Sharding sharding = best_sharding_of(n);
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (sharding.in[i].is_split() && sharding.in[i] != time(node.inputs[i]).layout)
          request_parts(node.inputs[i], sharding.in[i].dim);
      return split(n, std::move(sharding));
    }
    if (all_partial && node.inputs.size() > 1 && !writes) {  // a sum of sums: one accumulator instead of several
      for (Sharding& sharding : shardings_of(n))
        if (std::all_of(sharding.in.begin(), sharding.in.end(), [](Sbp in) { return in.is_partial(); }))
          return split(n, std::move(sharding));
    }
    NodeId awaited_sum;
    for (ValueId in : node.inputs) {
      layouts_.is_read_whole[in] = true;
      if (awaited_sum.valid()) continue;
      awaited_sum = time(in).layout.is_broadcast() ? time(in).awaited_sum : graph_.value(in).producer;
    }
    for (ValueId out : node.outputs) time(out) = {B(), awaited_sum};
  }

  void split(NodeId n, Sharding sharding) {
    const Node& node = graph_.node(n);
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const Sbp layout = sharding.out[o];
      if (layout.is_partial() && layout.reduce != Reduce::sum)
        fail(describe(graph_, n), " takes the ", name_of(layout.reduce),
             " over the batch, which cannot be accumulated over microbatches=", layouts_.count, ": only sums can be",
             layouts_.batch_text);
      time(node.outputs[o]) = {layout, {}};
    }
    layouts_.splits[n] = {true, std::move(sharding)};
  }

  // Records the inputs of which only a part is needed to compute a part of this value.
  void request_parts(ValueId value, int dim) {
    const NodeId n = graph_.value(value).producer;
    const Node& node = graph_.node(n);
    if (node.op->role == Role::source && dim == 0) inputs_read_in_parts_.insert(n);
    for (const Sharding& sharding : shardings_of(n)) {
      if (sharding.out[static_cast<std::size_t>(graph_.value(value).output)] != S(dim)) continue;
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (sharding.in[i].is_split()) request_parts(node.inputs[i], sharding.in[i].dim);
      return;
    }
  }

  bool is_result(ValueId value) const {
    return std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                       [&](const Output& o) { return o.value == value; }) ||
           std::any_of(graph_.variables.begin(), graph_.variables.end(),
                       [&](const Variable& v) { return v.updated == value; });
  }

  // Returns the sharding that keeps split operands split in time and splits the fewest of the other operands.
  Sharding best_sharding_of(NodeId n) const {
    const Node& node = graph_.node(n);
    for (ValueId in : node.inputs) {
      const NodeId producer = graph_.value(in).producer;
      const NodeId sum = waits_for_sum(in) ? time(in).awaited_sum : time(in).layout.is_partial() ? producer : NodeId();
      if (!sum.valid() || add_pending_sums(in)) continue;
      fail(describe(graph_, n), " works on one micro-batch, but waits for ", describe(graph_, producer),
           producer == sum ? "" : cat(", which depends on ", describe(graph_, sum)),
           ", a sum over the whole batch: statistics of a batch cannot be accumulated with microbatches=",
           layouts_.count, layouts_.batch_text);
    }
    std::optional<Sharding> best;
    int min_cuts = 0;
    for (Sharding& sharding : shardings_of(n)) {
      int cuts = 0;
      bool is_possible = true;
      for (std::size_t i = 0; is_possible && i < node.inputs.size(); ++i) {
        const Sbp layout = time(node.inputs[i]).layout;
        const Sbp summed = layout.is_partial() ? B() : layout;  // a Partial is summed before it is read
        is_possible = sharding.in[i] == summed || (summed.is_broadcast() && sharding.in[i].is_split());
        cuts += sharding.in[i] != summed;
      }
      if (is_possible && (!best || cuts < min_cuts)) best = std::move(sharding), min_cuts = cuts;
    }
    if (!best.has_value() || !node.regions.empty())
      fail(describe(graph_, n), " needs more of the batch than one micro-batch of microbatches=", layouts_.count,
           ": its ", node.inputs.size() == 1 ? "operand is " : "operands are ",
           join(node.inputs, ", ", [&](ValueId in) { return text_of(in); }), layouts_.batch_text);
    return *best;
  }

  std::string text_of(ValueId value) const {
    const Sbp layout = time(value).layout;
    return cat(graph_.type(value), layout.is_split() ? cat(" with the batch in dimension ", layout.dim) : "");
  }

  // True if the value for the whole batch can be computed from values that exist when a launch begins, without a matrix
  // product or convolution.
  bool can_be_early(ValueId value) const {
    const auto found = can_be_early_.find(value);
    if (found != can_be_early_.end()) return found->second;
    const Node& node = graph_.node(graph_.value(value).producer);
    bool can = node.regions.empty() && node.op->role != Role::update && node.op->role != Role::store;
    std::vector<TensorType> in, out;
    for (ValueId v : node.inputs) in.push_back(graph_.type(v));
    for (ValueId v : node.outputs) out.push_back(graph_.type(v));
    const WorkClass work = cost_of(*node.op, in, out, node.attrs).work;
    can = can && work != WorkClass::matmul && work != WorkClass::conv && work != WorkClass::conv_input &&
          work != WorkClass::conv_weight;
    for (ValueId v : node.inputs) can = can && can_be_early(v);
    return can_be_early_[value] = can;
  }

  // Returns true if all sums over the batch on which the value depends can be computed early, and adds these sums to
  // pending_sums_.
  bool add_pending_sums(ValueId value) const {
    if (!can_be_early(value)) return false;
    std::vector<ValueId> open = {value};
    std::set<ValueId> visited;
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!visited.insert(v).second) continue;
      const NodeId producer = graph_.value(v).producer;
      if (time(v).layout.is_partial()) pending_sums_.insert(producer);
      else if (waits_for_sum(v))
        open.insert(open.end(), graph_.node(producer).inputs.begin(), graph_.node(producer).inputs.end());
    }
    return true;
  }

  // Marks the split inputs that an early sum reads.
  void mark_whole_sources(NodeId n) {
    const Node& node = graph_.node(n);
    if (node.op->role == Role::source) layouts_.is_whole_source[n] = layouts_.splits[n].is_split;
    for (ValueId in : node.inputs)
      if (read_early_.insert(in).second) mark_whole_sources(graph_.value(in).producer);
  }

  const Graph& graph_;
  const std::set<NodeId> aligned_inputs_;
  const ById<ValueId, std::vector<Use>> uses_;
  MicrobatchLayouts layouts_;
  std::set<NodeId> inputs_read_in_parts_;
  mutable std::set<NodeId> pending_sums_;
  mutable std::map<ValueId, bool> can_be_early_;
  std::set<ValueId> read_early_;
};

// Splits the batch. If sums turn out to be needed early, tries again with these sums.
BatchSplitter split_batch(const Graph& graph, Batch& batch) {
  while (true) {
    BatchSplitter splitter(graph, batch);
    if (splitter.pending_sums().empty()) return splitter;
    batch.early.insert(splitter.pending_sums().begin(), splitter.pending_sums().end());
  }
}

}  // namespace

std::vector<Sharding> shardings_in_time(const Graph& graph, NodeId n, int count) {
  const Node& node = graph.node(n);
  if (node.op->role != Role::transfer) return shardings({&graph, n}, count);
  std::vector<Sharding> out = {{{B()}, {B()}}};
  const Shape& shape = graph.type(node.inputs[0]).shape;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] % count == 0) out.push_back({{S(static_cast<int>(d))}, {S(static_cast<int>(d))}});
  return out;
}

MicrobatchLayouts choose_microbatch_layouts(const Graph& graph, int count, std::int64_t rows) {
  Batch batch{count, rows, {}, {}};
  BatchSplitter first = split_batch(graph, batch);
  batch.aligned_inputs = first.inputs_read_in_parts();
  while (!batch.aligned_inputs.empty()) {
    try {
      BatchSplitter aligned = split_batch(graph, batch);
      const std::size_t old_size = batch.aligned_inputs.size();
      batch.aligned_inputs.insert(aligned.inputs_read_in_parts().begin(), aligned.inputs_read_in_parts().end());
      if (batch.aligned_inputs.size() == old_size) return std::move(aligned.layouts());
    } catch (const Error&) { break; }  // a node needs such an input whole: the inputs stay whole
  }
  return std::move(first.layouts());
}

}  // namespace karez::passes
