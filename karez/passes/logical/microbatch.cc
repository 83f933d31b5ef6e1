// microbatch: chooses the layout of each value in time and builds the graph of one micro-batch.
#include "karez/passes/logical/microbatch.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "karez/base/attr_cast.h"
#include "karez/base/text.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

// A value's layout on the axis of micro-batches, and the sum that it waits for.
struct BatchLayout {
  Sbp lies = B();
  NodeId late;  // if Broadcast: a sum over all micro-batches on which the value depends, if there is one
};

// Reports whether a node acts once for each micro-batch, and the layouts of its operands and results if it does.
struct NodeSplit {
  bool micro = false;
  Sharding sharding;
};

// The batch, with results of earlier attempts to split it.
struct Batch {
  int count = 1;
  std::int64_t rows = 0;
  std::set<NodeId> aligned_inputs;  // inputs of other sizes that are split in time with the batch
  std::set<NodeId> early;           // sums over the whole batch that are computed before the first micro-batch
};

class BatchSplitter {
 public:
  BatchSplitter(const Graph& graph, const OpTable& ops, Batch batch)
      : graph_(graph),
        ops_(ops),
        count_(batch.count),
        batch_(batch.rows),
        aligned_inputs_(std::move(batch.aligned_inputs)),
        early_(std::move(batch.early)),
        axis_(Mesh::of({{"time", batch.count}})),
        uses_(uses_of(graph)),
        time_(graph.values.size()),
        placed_(graph.nodes.size()),
        wanted_whole_(graph.values.size(), false),
        comes_whole_(graph.nodes.size(), false),
        whole_(graph.values.size()),
        rewrite_(graph) {}

  // Inputs that are Broadcast in time although nodes read parts of them: labels [64 * 10] next to a batch of 64.
  const std::set<NodeId>& inputs_read_in_parts() const { return inputs_read_in_parts_; }
  // Sums that must be computed early and are not yet in Batch::early.
  const std::set<NodeId>& pending_sums() const { return pending_sums_; }

  void place_all() {
    find_batch();
    for (NodeId n : graph_.nodes.ids()) place(n);
    for (NodeId n : early_) find_inputs(n);
  }

  Graph run() {
    for (const Output& output : graph_.outputs) wanted_whole_[output.value] = true;
    for (const Variable& variable : graph_.variables)
      if (variable.updated.valid()) wanted_whole_[variable.updated] = true;
    for (NodeId n : graph_.nodes.ids()) write(n);
    Graph made = rewrite_.finish();
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) made.outputs[i].value = whole_[graph_.outputs[i].value];
    for (std::size_t i = 0; i < graph_.variables.size(); ++i)
      if (graph_.variables[i].updated.valid()) made.variables[i].updated = whole_[graph_.variables[i].updated];
    for (Node& node : made.nodes) drop_frontend_attrs(node);
    for (Node& node : made.nodes)  // a node that acts once cannot wait for each of several acts
      std::erase_if(node.after,
                    [&](NodeId before) { return made.node(before).acts > 1 && made.node(before).acts != node.acts; });
    remove_dead(made);
    return made;
  }

 private:
  // ---- the batch

  void find_batch() {
    std::vector<std::string> names;
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.node(n);
      if (node.op->role != Role::source) continue;
      const Shape& shape = graph_.type(node.outputs[0]).shape;
      if (shape.empty() || is_unbatched(node)) continue;
      if (batch_ == 0 && names.empty()) batch_ = shape[0];
      if (shape[0] == batch_) names.push_back(cat("'", node.attrs.text("name"), "'"));
      if (node.attrs.has("groups")) groups_ = node.attrs.integer("groups");
    }
    require(batch_ > 0 && !names.empty(), "microbatches=", count_, ", but no input of '", graph_.name,
            "' has a batch (a dimension 0 that is not empty)");
    require_divides(batch_, count_);
    batch_text_ =
        cat("; the batch of ", batch_, " is dimension 0 of ", names.size() == 1 ? "input " : "the inputs ",
            join(names, ", "),
            names.size() == 1 ? "" : "; an input of this length that is not a batch must be declared as unbatched");
  }

  // Attributes that the front end sets on inputs and no later pass reads.
  static bool is_unbatched(const Node& node) { return node.attrs.flag("unbatched", false); }
  static void drop_frontend_attrs(Node& node) {
    if (node.op->role != Role::source) return;
    for (const char* word : {"unbatched", "parts"}) node.attrs.erase(word);
  }

  // If the rows of a batch form groups of equal size, a micro-batch has some rows of each group, in the order of
  // groups, so that each device has its rows of every micro-batch in its own group:
  //
  //   2 groups of rows 0 1 2 3 | 4 5 6 7, 2 micro-batches  ->  0 1 4 5, then 2 3 6 7
  //
  // A whole value has its rows in the original order. Returns its shape with dimension `dim` replaced by [outer, inner,
  // row of both], where outer and inner are the numbers of groups and micro-batches, or the reverse.
  Shape in_groups(const Shape& shape, int dim, std::int64_t outer, std::int64_t inner) const {
    const auto at = shape.begin() + dim;
    require(ErrorKind::shape, *at % (outer * inner) == 0, "microbatches=", count_, " of parts by local() on ", groups_,
            " devices: ", outer * inner, " does not divide a dimension of ", *at, " that is split with the batch of ",
            batch_, ", so that rows of different devices would be mixed in it; pass the whole batch", batch_text_);
    Shape out(shape.begin(), at);
    out.insert(out.end(), {outer, inner, *at / (outer * inner)});
    out.insert(out.end(), at + 1, shape.end());
    return out;
  }

  ValueId add(std::string_view op, ValueId in, Attrs attrs, Shape shape, int acts, ValueId like) {
    const TensorType type{graph_.type(like).dtype, std::move(shape)};
    const NodeId made = rewrite_.add(&ops_.at(op), {in}, std::move(attrs), std::span(&type, 1), graph_.value(like).mesh,
                                     graph_.value(like).producer);
    rewrite_.graph().node(made).acts = acts;
    return rewrite_.graph().node(made).outputs[0];
  }
  ValueId reshaped(ValueId in, Shape shape, int acts, ValueId like) {
    return add("reshape", in, Attrs().set("shape", Ints(shape.begin(), shape.end())), shape, acts, like);
  }
  ValueId with_swapped(ValueId in, Shape shape, int dim, ValueId like) {  // dimensions dim and the next
    Ints perm(shape.size());
    std::iota(perm.begin(), perm.end(), std::int64_t{0});
    std::swap(perm[static_cast<std::size_t>(dim)], perm[static_cast<std::size_t>(dim) + 1]);
    std::swap(shape[static_cast<std::size_t>(dim)], shape[static_cast<std::size_t>(dim) + 1]);
    return add("transpose", in, Attrs().set("perm", perm), std::move(shape), 1, like);
  }

  ValueId joined_groups(ValueId value, int dim) {
    const Shape& whole = graph_.type(value).shape;
    const Shape by_time = in_groups(whole, dim, count_, groups_);
    Shape one = by_time;
    one[static_cast<std::size_t>(dim)] = 1;
    const ValueId part = reshaped(rewrite_.at(value), one, count_, value);
    const ValueId joined =
        add("micro_join", part, Attrs().set("axis", dim).set("parts", count_), by_time, count_, value);
    return reshaped(with_swapped(joined, by_time, dim, value), whole, 1, value);
  }

  ValueId part_of_groups(ValueId value, ValueId whole, int dim) {
    Shape part = graph_.type(value).shape;
    const Shape by_group = in_groups(part, dim, groups_, count_);
    const ValueId by_time = with_swapped(reshaped(whole, by_group, 1, value), by_group, dim, value);
    Shape one = in_groups(part, dim, count_, groups_);
    one[static_cast<std::size_t>(dim)] = 1;
    part[static_cast<std::size_t>(dim)] /= count_;
    return reshaped(add("micro_slice", by_time, Attrs().set("axis", dim).set("parts", count_), one, count_, value),
                    part, count_, value);
  }

  // An array is whole on the mesh when the launch begins; micro_slice nodes take its parts.
  static bool is_array(const Node& node) { return node.op->role == Role::source && node.attrs.flag("array", false); }

  // ---- layouts of nodes in time

  bool is_late(ValueId value) const { return time_[value].late.valid(); }

  void place(NodeId n) {
    const Node& node = graph_.node(n);
    if (node.op->role == Role::source) {
      const Shape& shape = graph_.type(node.outputs[0]).shape;
      if (!shape.empty() && !is_unbatched(node) && (shape[0] == batch_ || aligned_inputs_.count(n) > 0))
        lay(n, {{}, {S(0)}});
      return;
    }
    if (early_.count(n) > 0) return;
    bool split = false, all_partial = !node.inputs.empty();
    for (ValueId in : node.inputs) {
      split = split || time_[in].lies.is_split();
      all_partial = all_partial && time_[in].lies.is_partial() && uses_[in].size() == 1 && !is_result(in);
    }
    const bool writes = node.op->role == Role::update || node.op->role == Role::store;
    if (split && !writes) {
      Sharding sharding = sharding_of(n);
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (sharding.in[i].is_split() && sharding.in[i] != time_[node.inputs[i]].lies)
          request_parts(node.inputs[i], sharding.in[i].dim);
      return lay(n, std::move(sharding));
    }
    if (all_partial && node.inputs.size() > 1 && !writes) {  // sums of sums: one accumulator instead of several
      for (Sharding& sharding : shardings_of(n))
        if (std::all_of(sharding.in.begin(), sharding.in.end(), [](Sbp in) { return in.is_partial(); }))
          return lay(n, std::move(sharding));
    }
    NodeId late;
    for (ValueId in : node.inputs) {
      wanted_whole_[in] = true;
      const BatchLayout& time = time_[in];
      if (!late.valid()) late = time.lies.is_broadcast() ? time.late : graph_.value(in).producer;
    }
    for (ValueId out : node.outputs) time_[out] = {B(), late};
  }

  // All layouts of the node in time; a transfer to another placement keeps the layout of its operand.
  std::vector<Sharding> shardings_of(NodeId n) const {
    const Node& node = graph_.node(n);
    if (node.op->role != Role::transfer) return shardings({&graph_, n}, count_);
    std::vector<Sharding> ways = {{{B()}, {B()}}};
    const Shape& shape = graph_.type(node.inputs[0]).shape;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] % count_ == 0) ways.push_back({{S(static_cast<int>(d))}, {S(static_cast<int>(d))}});
    return ways;
  }

  // Records the inputs of which a part suffices for a part of this value.
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

  void lay(NodeId n, Sharding sharding) {
    const Node& node = graph_.node(n);
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      Sbp lies = sharding.out[o];
      require(!lies.is_partial() || lies.reduce == Reduce::sum, describe(graph_, n), " takes the ",
              name_of(lies.reduce), " over the batch, which cannot be accumulated over microbatches=", count_,
              ": only sums can be", batch_text_);
      time_[node.outputs[o]] = {lies, {}};
    }
    placed_[n] = {true, std::move(sharding)};
  }

  // The layouts that keep split operands split in time and split the fewest others.
  Sharding sharding_of(NodeId n) const {
    const Node& node = graph_.node(n);
    for (ValueId in : node.inputs) {
      const NodeId producer = graph_.value(in).producer;
      const NodeId sum = is_late(in) ? time_[in].late : time_[in].lies.is_partial() ? producer : NodeId();
      if (!sum.valid() || add_pending_sums(in)) continue;
      fail(describe(graph_, n), " works on one micro-batch, but waits for ", describe(graph_, producer),
           producer == sum ? "" : cat(", which depends on ", describe(graph_, sum)),
           ", a sum over the whole batch: statistics of a batch cannot be accumulated with microbatches=", count_,
           batch_text_);
    }
    std::optional<Sharding> best;
    int least = 0;
    for (Sharding& sharding : shardings_of(n)) {
      int cuts = 0;
      bool fits = true;
      for (std::size_t i = 0; fits && i < node.inputs.size(); ++i) {
        const Sbp lies =
            time_[node.inputs[i]].lies.is_partial() ? B() : time_[node.inputs[i]].lies;  // a Partial is summed before
        fits = sharding.in[i] == lies || (lies.is_broadcast() && sharding.in[i].is_split());
        cuts += sharding.in[i] != lies;
      }
      if (fits && (!best || cuts < least)) best = std::move(sharding), least = cuts;
    }
    require(best.has_value() && node.regions.empty(), describe(graph_, n),
            " needs more of the batch than one micro-batch of microbatches=", count_, ": its ",
            node.inputs.size() == 1 ? "operand is " : "operands are ",
            join(node.inputs, ", ", [&](ValueId in) { return text_of(in); }), batch_text_);
    return *best;
  }

  // ---- sums that are computed before the first micro-batch

  // True if the value of the whole batch needs no product and depends only on values that exist when a launch begins.
  bool can_be_early(ValueId value) const {
    const auto known = can_be_early_.find(value);
    if (known != can_be_early_.end()) return known->second;
    const Node& node = graph_.node(graph_.value(value).producer);
    bool can = node.regions.empty() && node.op->role != Role::update && node.op->role != Role::store;
    std::vector<TensorType> in, out;
    for (ValueId v : node.inputs) in.push_back(graph_.type(v));
    for (ValueId v : node.outputs) out.push_back(graph_.type(v));
    const WorkClass work = cost_of(*node.op, in, out, node.attrs).work;
    can = can && work != WorkClass::matmul && work != WorkClass::conv && work != WorkClass::conv_input &&
          work != WorkClass::conv_weight;
    for (ValueId in : node.inputs) can = can && can_be_early(in);
    return can_be_early_[value] = can;
  }

  // True if all sums over the batch on which the value depends can be computed early; adds them to pending_sums_ if so.
  bool add_pending_sums(ValueId value) const {
    if (!can_be_early(value)) return false;
    std::vector<ValueId> open = {value};
    std::set<ValueId> seen;
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!seen.insert(v).second) continue;
      const NodeId producer = graph_.value(v).producer;
      if (time_[v].lies.is_partial()) pending_sums_.insert(producer);
      else if (is_late(v))
        open.insert(open.end(), graph_.node(producer).inputs.begin(), graph_.node(producer).inputs.end());
    }
    return true;
  }

  // Marks the inputs that an early sum reads whole.
  void find_inputs(NodeId n) {
    const Node& node = graph_.node(n);
    if (node.op->role == Role::source) comes_whole_[n] = placed_[n].micro;
    for (ValueId in : node.inputs)
      if (seen_early_.insert(in).second) find_inputs(graph_.value(in).producer);
  }

  // The value of the whole batch.
  ValueId early(ValueId value) {
    const NodeId n = graph_.value(value).producer;
    const Node& node = graph_.node(n);
    if (!placed_[n].micro || node.op->role == Role::source) return whole_[value];
    ValueId& known = made_early_[value];
    if (known.valid()) return known;
    std::vector<ValueId> inputs;
    std::vector<TensorType> types;
    for (ValueId in : node.inputs) inputs.push_back(early(in));
    for (ValueId out : node.outputs) types.push_back(graph_.type(out));
    const NodeId made = rewrite_.add(node.op, std::move(inputs), Attrs(node.attrs), types, graph_.value(value).mesh, n);
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      made_early_[node.outputs[o]] = rewrite_.graph().node(made).outputs[o];
    return made_early_[value];
  }

  std::string text_of(ValueId value) const {
    const Sbp lies = time_[value].lies;
    return cat(graph_.type(value), lies.is_split() ? cat(" with the batch in dimension ", lies.dim) : "");
  }

  // ---- the graph of one micro-batch

  Box box_of(ValueId value, Sbp lies, int act) const {
    return local_box(graph_.type(value).shape, axis_, {lies.is_split() ? lies : B()}, act);
  }

  // A node on one micro-batch: the attributes that are equal in all acts, and those that differ by act.
  struct MicrobatchNode {
    Attrs attrs;
    std::vector<Attrs> act_attrs;
    std::vector<TensorType> types;
  };
  MicrobatchNode local_of(NodeId n, const Sharding& sharding) const {
    const Node& node = graph_.node(n);
    std::vector<Attrs> by_act;
    MicrobatchNode made;
    for (int act = 0; act < count_; ++act) {
      LocalView view{{&graph_, n}, {}, {}};
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        view.in.push_back(box_of(node.inputs[i], sharding.in[i], act));
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        view.out.push_back(box_of(node.outputs[o], sharding.out[o], act));
        if (act == 0) made.types.push_back({graph_.type(node.outputs[o]).dtype, shape_of(view.out[o])});
      }
      by_act.push_back(graph::localise(view));
    }
    for (const auto& [name, value] : by_act[0].items()) {
      auto says = [&item = value, &called = name](const Attrs& attrs) {
        return attrs.has(called) && attr_at(attrs, called) == item;
      };
      if (std::all_of(by_act.begin(), by_act.end(), says)) made.attrs.set(name, value);
    }
    bool differ = false;
    for (Attrs& attrs : by_act) {
      for (const auto& [name, value] : made.attrs.items()) attrs.erase(name);
      differ = differ || !attrs.empty();
    }
    if (differ) made.act_attrs = std::move(by_act);
    return made;
  }

  // True if the node's result depends on which rows of the batch its micro-batch has, except for row numbers in errors
  // and for random numbers.
  bool counts_rows(NodeId n, const MicrobatchNode& local) const {
    const Node& node = graph_.node(n);
    return !local.act_attrs.empty() && !node.op->indices && !node.op->name.starts_with("random");
  }

  void write(NodeId n) {
    const Node& node = graph_.node(n);
    const auto& [micro, sharding] = placed_[n];
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (early_.count(n) > 0) inputs.push_back(early(in));
      else if (!micro) inputs.push_back(whole_[in]);
      else inputs.push_back(time_[in].lies == sharding.in[i] ? rewrite_.at(in) : cut(in, sharding.in[i].dim));
    }
    const NodeId now = rewrite_.keep(n, std::move(inputs));
    if (micro && (is_array(node) || comes_whole_[n])) {
      rewrite_.graph().node(now).attrs.erase("groups");  // its rows are in the original order
      const ValueId whole = rewrite_.at(node.outputs[0]);
      whole_[node.outputs[0]] = whole;
      rewrite_.map(node.outputs[0], part_of(node.outputs[0], whole, 0));
      return;
    }
    Graph& to = rewrite_.graph();
    if (micro) {
      MicrobatchNode local = local_of(n, sharding);
      require(groups_ == 1 || !counts_rows(n, local), describe(graph_, n),
              " depends on the positions of rows in the batch, which micro-batches of parts by ",
              "local() change: pass the whole batch, or call a function with microbatches=1", batch_text_);
      to.node(now).acts = count_;
      to.node(now).attrs = std::move(local.attrs);
      if (groups_ > 1 && node.op->role == Role::source) to.node(now).attrs.set("groups", groups_);
      // An op that merges rows must merge rows of one group.
      for (std::size_t o = 0; o < node.outputs.size() && groups_ > 1; ++o)
        if (sharding.out[o].is_split())
          in_groups(graph_.type(node.outputs[o]).shape, sharding.out[o].dim, groups_, count_);
      to.node(now).act_attrs = std::move(local.act_attrs);
      for (std::size_t o = 0; o < node.outputs.size(); ++o)
        to.value(to.node(now).outputs[o]).type = std::move(local.types[o]);
    }
    for (ValueId out : node.outputs) make_whole(n, out);
  }

  // Joins or accumulates right after the producer, so that the result of one micro-batch is freed as early as possible.
  void make_whole(NodeId n, ValueId value) {
    const Sbp lies = time_[value].lies;
    whole_[value] = rewrite_.at(value);
    if (lies.is_broadcast() || !wanted_whole_[value]) return;
    if (lies.is_split() && groups_ > 1) {
      whole_[value] = joined_groups(value, lies.dim);
      return;
    }
    const TensorType& type = graph_.type(value);
    Attrs attrs;
    if (lies.is_split()) attrs.set("axis", lies.dim).set("parts", count_);
    NodeId node = rewrite_.add(&ops_.at(lies.is_split() ? "micro_join" : "accumulate"), {rewrite_.at(value)},
                               std::move(attrs), std::span(&type, 1), graph_.value(value).mesh, n);
    rewrite_.graph().node(node).acts = count_;
    whole_[value] = rewrite_.graph().node(node).outputs[0];
  }

  // ---- whole values that are read in parts

  // The sharding in which the node computes a part of its result, if that needs no more work than the whole: windows
  // and pointwise ops on parts that can be computed in the same way, nodes that read their operands whole in any case,
  // and constants whose parts are equal.
  std::optional<Sharding> sharding_of_part(ValueId value, int dim) const {
    const NodeId n = graph_.value(value).producer;
    const Node& node = graph_.node(n);
    const auto output = static_cast<std::size_t>(graph_.value(value).output);
    if (!node.regions.empty() || node.op->role == Role::state || node.op->role == Role::source) return std::nullopt;
    for (Sharding& sharding : shardings_of(n)) {
      if (sharding.out[output] != S(dim)) continue;
      bool all_whole = true, makes = true;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        all_whole = all_whole && sharding.in[i].is_broadcast();
        makes = makes && !sharding.in[i].is_partial() &&
                (sharding.in[i].is_broadcast() || sharding_of_part(node.inputs[i], sharding.in[i].dim));
      }
      const bool light = node.op->role == Role::window || node.op->elementwise;
      if (!makes || !(light || all_whole)) continue;
      if (node.op->role == Role::constant && !local_of(n, sharding).act_attrs.empty()) continue;
      if (groups_ > 1 && !local_of(n, sharding).act_attrs.empty()) continue;
      return std::move(sharding);
    }
    return std::nullopt;
  }

  ValueId cut(ValueId value, int dim) {
    ValueId& known = parts_[{value, dim}];
    if (known.valid()) return known;
    const NodeId n = graph_.value(value).producer;
    const Node& node = graph_.node(n);
    Graph& to = rewrite_.graph();
    if (auto sharding = sharding_of_part(value, dim)) {
      MicrobatchNode local = local_of(n, *sharding);
      std::vector<ValueId> inputs;
      int acts = local.act_attrs.empty() ? 1 : count_;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        inputs.push_back(sharding->in[i].is_broadcast() ? rewrite_.at(node.inputs[i])
                                                        : cut(node.inputs[i], sharding->in[i].dim));
        acts = std::max(acts, fills_per_launch(to, inputs.back()));
      }
      const NodeId made =
          rewrite_.add(node.op, std::move(inputs), std::move(local.attrs), local.types, graph_.value(value).mesh, n);
      to.node(made).acts = acts;
      to.node(made).act_attrs = std::move(local.act_attrs);
      for (NodeId before : node.after) to.node(made).after.push_back(rewrite_.node_at(before));
      return parts_[{value, dim}] = to.node(made).outputs[static_cast<std::size_t>(graph_.value(value).output)];
    }
    return parts_[{value, dim}] = part_of(value, rewrite_.at(value), dim);
  }

  ValueId part_of(ValueId value, ValueId whole, int dim) {
    if (groups_ > 1) return part_of_groups(value, whole, dim);
    TensorType type = graph_.type(value);
    type.shape[static_cast<std::size_t>(dim)] /= count_;
    const NodeId made = rewrite_.add(&ops_.at("micro_slice"), {whole}, Attrs().set("axis", dim).set("parts", count_),
                                     std::span(&type, 1), graph_.value(value).mesh, graph_.value(value).producer);
    rewrite_.graph().node(made).acts = count_;
    return rewrite_.graph().node(made).outputs[0];
  }

  const Graph& graph_;
  const OpTable& ops_;
  const int count_;
  std::int64_t batch_, groups_ = 1;
  const std::set<NodeId> aligned_inputs_, early_;
  std::set<NodeId> inputs_read_in_parts_;
  mutable std::set<NodeId> pending_sums_;
  mutable std::map<ValueId, bool> can_be_early_;
  std::set<ValueId> seen_early_;
  std::map<ValueId, ValueId> made_early_;
  std::string batch_text_;
  const Mesh axis_;
  const ById<ValueId, std::vector<Use>> uses_;
  ById<ValueId, BatchLayout> time_;
  ById<NodeId, NodeSplit> placed_;
  ById<ValueId, bool> wanted_whole_;
  ById<NodeId, bool> comes_whole_;  // inputs that early sums read
  ById<ValueId, ValueId> whole_;    // by old value: the value of the whole batch, filled once per launch
  Rewrite rewrite_;
  std::map<std::pair<ValueId, int>, ValueId> parts_;  // by old value and dimension
};

}  // namespace

void require_divides(std::int64_t batch, int count) {
  if (batch % count == 0) return;
  std::vector<std::int64_t> nearest;
  for (std::int64_t below = std::min<std::int64_t>(count, batch); below > 0 && nearest.empty(); --below)
    if (batch % below == 0) nearest.push_back(below);
  for (std::int64_t above = count; above <= batch && nearest.size() == 1; ++above)
    if (batch % above == 0) nearest.push_back(above);
  fail("microbatches=", count, " does not divide the batch of ", batch, "; nearest: ", join(nearest, ", "));
}

Graph microbatch(const Graph& graph, const OpTable& ops, int count, std::int64_t rows) {
  require(count >= 1, "microbatches must be at least 1, got ", count);
  if (count == 1) return graph;
  Batch batch{count, rows, {}, {}};
  const auto placed = [&] {
    while (true) {
      auto splitter = std::make_unique<BatchSplitter>(graph, ops, batch);
      splitter->place_all();
      if (splitter->pending_sums().empty()) return splitter;
      batch.early.insert(splitter->pending_sums().begin(), splitter->pending_sums().end());
    }
  };
  const std::unique_ptr<BatchSplitter> splitter = placed();
  for (batch.aligned_inputs = splitter->inputs_read_in_parts(); !batch.aligned_inputs.empty();) {
    std::unique_ptr<BatchSplitter> other;
    try {
      other = placed();
    } catch (const Error&) { break; }  // a node needs them whole: they are split after the input
    const std::size_t before = batch.aligned_inputs.size();
    batch.aligned_inputs.insert(other->inputs_read_in_parts().begin(), other->inputs_read_in_parts().end());
    if (batch.aligned_inputs.size() == before) return other->run();
  }
  return splitter->run();
}

}  // namespace karez::passes
