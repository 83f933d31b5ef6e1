// Builds the graph of one micro-batch from the layouts of values in time.
#include "karez/passes/logical/microbatch.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "karez/base/attr_cast.h"
#include "karez/base/text.h"
#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/logical/microbatch_layouts.h"
#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

// Removes attributes of inputs that the front end sets and no later pass reads.
void drop_frontend_attrs(Node& node) {
  if (node.op->role != Role::source) return;
  for (const char* name : {"unbatched", "parts"}) node.attrs.erase(name);
}

// True for an input that is an array on the mesh. The whole array exists when the launch begins, and micro_slice nodes
// read parts of it.
bool is_array(const Node& node) { return node.op->role == Role::source && node.attrs.flag("array", false); }

class MicrobatchRewriter {
 public:
  MicrobatchRewriter(const Graph& graph, const OpTable& ops, MicrobatchLayouts layouts)
      : graph_(graph),
        ops_(ops),
        layouts_(std::move(layouts)),
        count_(layouts_.count),
        groups_(layouts_.groups),
        axis_(Mesh::of({{"time", count_}})),
        whole_(graph.values.size()),
        rewrite_(graph) {}

  Graph run() {
    for (const Output& output : graph_.outputs) layouts_.is_read_whole[output.value] = true;
    for (const Variable& variable : graph_.variables)
      if (variable.updated.valid()) layouts_.is_read_whole[variable.updated] = true;
    for (NodeId n : graph_.nodes.ids()) write(n);
    Graph out = rewrite_.finish();
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) out.outputs[i].value = whole_[graph_.outputs[i].value];
    for (std::size_t i = 0; i < graph_.variables.size(); ++i)
      if (graph_.variables[i].updated.valid()) out.variables[i].updated = whole_[graph_.variables[i].updated];
    for (Node& node : out.nodes) drop_frontend_attrs(node);
    for (Node& node : out.nodes)  // a node that acts once cannot wait for each of several acts
      std::erase_if(node.after, [&](NodeId predecessor) {
        const int acts = out.node(predecessor).acts;
        return acts > 1 && acts != node.acts;
      });
    remove_dead(out);
    return out;
  }

 private:
  // ---- groups of rows

  // If the rows of a batch form groups of equal size, each micro-batch takes an equal share of the rows of every group,
  // in the order of the groups. The rows of a micro-batch that are on one device then belong to one group:
  //
  //   2 groups of rows 0 1 2 3 | 4 5 6 7, 2 micro-batches  ->  0 1 4 5, then 2 3 6 7
  //
  // A value for the whole batch has its rows in the original order. Returns `shape` with dimension `dim` replaced by
  // three dimensions [outer, inner, rows]. `outer` and `inner` are the number of groups and the number of
  // micro-batches, in either order.
  Shape in_groups(const Shape& shape, int dim, std::int64_t outer, std::int64_t inner) const {
    const auto at = shape.begin() + dim;
    require(ErrorKind::shape, *at % (outer * inner) == 0, "microbatches=", count_, " of parts passed by local() on ",
            groups_, " devices: ", outer * inner, " does not divide a dimension of ", *at,
            " that is split with the batch of ", layouts_.batch,
            ", so that rows of different devices would be mixed; pass the whole batch instead", layouts_.batch_text);
    Shape out(shape.begin(), at);
    out.insert(out.end(), {outer, inner, *at / (outer * inner)});
    out.insert(out.end(), at + 1, shape.end());
    return out;
  }

  ValueId add(std::string_view op, ValueId in, Attrs attrs, Shape shape, int acts, ValueId source) {
    const TensorType type{graph_.type(source).dtype, std::move(shape)};
    const NodeId node = rewrite_.add(&ops_.at(op), {in}, std::move(attrs), std::span(&type, 1),
                                     graph_.value(source).mesh, graph_.value(source).producer);
    rewrite_.graph().node(node).acts = acts;
    return rewrite_.graph().node(node).outputs[0];
  }
  ValueId add_reshape(ValueId in, Shape shape, int acts, ValueId source) {
    return add("reshape", in, Attrs().set("shape", Ints(shape.begin(), shape.end())), shape, acts, source);
  }
  ValueId add_swap(ValueId in, Shape shape, int dim, ValueId source) {  // swaps dimension `dim` with the next one
    Ints perm(shape.size());
    std::iota(perm.begin(), perm.end(), std::int64_t{0});
    std::swap(perm[static_cast<std::size_t>(dim)], perm[static_cast<std::size_t>(dim) + 1]);
    std::swap(shape[static_cast<std::size_t>(dim)], shape[static_cast<std::size_t>(dim) + 1]);
    return add("transpose", in, Attrs().set("perm", perm), std::move(shape), 1, source);
  }

  ValueId join_groups(ValueId value, int dim) {
    const Shape& whole_value = graph_.type(value).shape;
    const Shape by_time = in_groups(whole_value, dim, count_, groups_);
    Shape part_shape = by_time;
    part_shape[static_cast<std::size_t>(dim)] = 1;
    const ValueId part = add_reshape(rewrite_.at(value), part_shape, count_, value);
    const ValueId joined =
        add("micro_join", part, Attrs().set("axis", dim).set("parts", count_), by_time, count_, value);
    return add_reshape(add_swap(joined, by_time, dim, value), whole_value, 1, value);
  }

  ValueId part_of_groups(ValueId value, ValueId whole_value, int dim) {
    Shape part = graph_.type(value).shape;
    const Shape by_group = in_groups(part, dim, groups_, count_);
    const ValueId by_time = add_swap(add_reshape(whole_value, by_group, 1, value), by_group, dim, value);
    Shape part_by_time = in_groups(part, dim, count_, groups_);
    part_by_time[static_cast<std::size_t>(dim)] = 1;
    part[static_cast<std::size_t>(dim)] /= count_;
    const ValueId slice =
        add("micro_slice", by_time, Attrs().set("axis", dim).set("parts", count_), part_by_time, count_, value);
    return add_reshape(slice, part, count_, value);
  }

  // ---- sums that are computed before the first micro-batch

  // Returns the value for the whole batch, which an early sum reads.
  ValueId early(ValueId value) {
    const NodeId n = graph_.value(value).producer;
    const Node& node = graph_.node(n);
    if (!layouts_.splits[n].is_split || node.op->role == Role::source) return whole_[value];
    if (const ValueId early_value = early_values_[value]; early_value.valid()) return early_value;
    std::vector<ValueId> inputs;
    std::vector<TensorType> types;
    for (ValueId in : node.inputs) inputs.push_back(early(in));
    for (ValueId out : node.outputs) types.push_back(graph_.type(out));
    const NodeId copy = rewrite_.add(node.op, std::move(inputs), Attrs(node.attrs), types, graph_.value(value).mesh, n);
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      early_values_[node.outputs[o]] = rewrite_.graph().node(copy).outputs[o];
    return early_values_[value];
  }

  // ---- nodes on one micro-batch

  Box box_of(ValueId value, Sbp layout, int act) const {
    return local_box(graph_.type(value).shape, axis_, {layout.is_split() ? layout : B()}, act);
  }

  // A node on one micro-batch: the attributes that are equal in all acts, and those that differ from act to act.
  struct MicrobatchNode {
    Attrs attrs;
    std::vector<Attrs> act_attrs;
    std::vector<TensorType> types;
  };
  MicrobatchNode localise_node(NodeId n, const Sharding& sharding) const {
    const Node& node = graph_.node(n);
    std::vector<Attrs> by_act;
    MicrobatchNode out;
    for (int act = 0; act < count_; ++act) {
      LocalView view{{&graph_, n}, {}, {}};
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        view.in.push_back(box_of(node.inputs[i], sharding.in[i], act));
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        view.out.push_back(box_of(node.outputs[o], sharding.out[o], act));
        if (act == 0) out.types.push_back({graph_.type(node.outputs[o]).dtype, shape_of(view.out[o])});
      }
      by_act.push_back(graph::localise(view));
    }
    for (const auto& [name, value] : by_act[0].items()) {
      auto has_value = [&expected = value, &attribute = name](const Attrs& attrs) {
        return attrs.has(attribute) && attr_at(attrs, attribute) == expected;
      };
      if (std::all_of(by_act.begin(), by_act.end(), has_value)) out.attrs.set(name, value);
    }
    bool any_differs = false;
    for (Attrs& attrs : by_act) {
      for (const auto& [name, value] : out.attrs.items()) attrs.erase(name);
      any_differs = any_differs || !attrs.empty();
    }
    if (any_differs) out.act_attrs = std::move(by_act);
    return out;
  }

  // True if the node's result depends on the positions of the micro-batch's rows in the batch. Row numbers in error
  // messages and random numbers do not count.
  bool counts_rows(NodeId n, const MicrobatchNode& local) const {
    const Node& node = graph_.node(n);
    return !local.act_attrs.empty() && !node.op->indices && !node.op->name.starts_with("random");
  }

  void write(NodeId n) {
    const Node& node = graph_.node(n);
    const auto& [is_split, sharding] = layouts_.splits[n];
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (layouts_.early.count(n) > 0) inputs.push_back(early(in));
      else if (!is_split) inputs.push_back(whole_[in]);
      else inputs.push_back(layouts_.time[in].layout == sharding.in[i] ? rewrite_.at(in) : cut(in, sharding.in[i].dim));
    }
    const NodeId new_node = rewrite_.keep(n, std::move(inputs));
    if (is_split && (is_array(node) || layouts_.is_whole_source[n])) {
      rewrite_.graph().node(new_node).attrs.erase("groups");  // the rows are in the original order
      const ValueId whole_value = rewrite_.at(node.outputs[0]);
      whole_[node.outputs[0]] = whole_value;
      rewrite_.map(node.outputs[0], part_of(node.outputs[0], whole_value, 0));
      return;
    }
    if (is_split) make_micro(n, new_node, sharding);
    for (ValueId out : node.outputs) make_whole(n, out);
  }

  // Changes a new node, a copy of node `n`, to act once for each micro-batch.
  void make_micro(NodeId n, NodeId new_node, const Sharding& sharding) {
    const Node& node = graph_.node(n);
    Graph& to = rewrite_.graph();
    MicrobatchNode local = localise_node(n, sharding);
    if (groups_ != 1 && counts_rows(n, local))
      fail(describe(graph_, n),
           " depends on the positions of rows in the batch, which micro-batches of parts passed by ",
           "local() change: pass the whole batch, or call a function with microbatches=1", layouts_.batch_text);
    to.node(new_node).acts = count_;
    to.node(new_node).attrs = std::move(local.attrs);
    if (groups_ > 1 && node.op->role == Role::source) to.node(new_node).attrs.set("groups", groups_);
    // If the op merges rows, checks that it merges only rows of the same group.
    for (std::size_t o = 0; o < node.outputs.size() && groups_ > 1; ++o)
      if (sharding.out[o].is_split())
        in_groups(graph_.type(node.outputs[o]).shape, sharding.out[o].dim, groups_, count_);
    to.node(new_node).act_attrs = std::move(local.act_attrs);
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      to.value(to.node(new_node).outputs[o]).type = std::move(local.types[o]);
  }

  // If a node needs the value for the whole batch, joins the results of the micro-batches or sums them. This happens
  // right after the producer, so that the result of one micro-batch is freed as early as possible.
  void make_whole(NodeId n, ValueId value) {
    const Sbp layout = layouts_.time[value].layout;
    whole_[value] = rewrite_.at(value);
    if (layout.is_broadcast() || !layouts_.is_read_whole[value]) return;
    if (layout.is_split() && groups_ > 1) {
      whole_[value] = join_groups(value, layout.dim);
      return;
    }
    const TensorType& type = graph_.type(value);
    Attrs attrs;
    if (layout.is_split()) attrs.set("axis", layout.dim).set("parts", count_);
    NodeId node = rewrite_.add(&ops_.at(layout.is_split() ? "micro_join" : "accumulate"), {rewrite_.at(value)},
                               std::move(attrs), std::span(&type, 1), graph_.value(value).mesh, n);
    rewrite_.graph().node(node).acts = count_;
    whole_[value] = rewrite_.graph().node(node).outputs[0];
  }

  // ---- whole values that are read in parts

  // Returns the sharding in which the node computes a part of its result, if all parts together need no more work than
  // the whole result. This holds for windows and pointwise ops whose operands can also be computed in parts, for nodes
  // that read their operands whole in any case, and for constants whose parts are equal.
  std::optional<Sharding> sharding_of_part(ValueId value, int dim) const {
    const NodeId n = graph_.value(value).producer;
    const Node& node = graph_.node(n);
    const auto output = static_cast<std::size_t>(graph_.value(value).output);
    if (!node.regions.empty() || node.op->role == Role::state || node.op->role == Role::source) return std::nullopt;
    for (Sharding& sharding : shardings_in_time(graph_, n, count_)) {
      if (sharding.out[output] != S(dim)) continue;
      bool all_whole = true, is_possible = true;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        all_whole = all_whole && sharding.in[i].is_broadcast();
        is_possible = is_possible && !sharding.in[i].is_partial() &&
                      (sharding.in[i].is_broadcast() || sharding_of_part(node.inputs[i], sharding.in[i].dim));
      }
      const bool is_light = node.op->role == Role::window || node.op->elementwise;
      if (!is_possible || !(is_light || all_whole)) continue;
      if (node.op->role == Role::constant && !localise_node(n, sharding).act_attrs.empty()) continue;
      if (groups_ > 1 && !localise_node(n, sharding).act_attrs.empty()) continue;
      return std::move(sharding);
    }
    return std::nullopt;
  }

  // Returns the part of a whole value that one micro-batch reads: computed as a part if possible, otherwise sliced.
  ValueId cut(ValueId value, int dim) {
    ValueId& part = parts_[{value, dim}];
    if (part.valid()) return part;
    const NodeId n = graph_.value(value).producer;
    const Node& node = graph_.node(n);
    Graph& to = rewrite_.graph();
    if (auto sharding = sharding_of_part(value, dim)) {
      MicrobatchNode local = localise_node(n, *sharding);
      std::vector<ValueId> inputs;
      int acts = local.act_attrs.empty() ? 1 : count_;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        inputs.push_back(sharding->in[i].is_broadcast() ? rewrite_.at(node.inputs[i])
                                                        : cut(node.inputs[i], sharding->in[i].dim));
        acts = std::max(acts, fills_per_launch(to, inputs.back()));
      }
      const NodeId copy =
          rewrite_.add(node.op, std::move(inputs), std::move(local.attrs), local.types, graph_.value(value).mesh, n);
      to.node(copy).acts = acts;
      to.node(copy).act_attrs = std::move(local.act_attrs);
      for (NodeId predecessor : node.after) to.node(copy).after.push_back(rewrite_.node_at(predecessor));
      return part = to.node(copy).outputs[static_cast<std::size_t>(graph_.value(value).output)];
    }
    return part = part_of(value, rewrite_.at(value), dim);
  }

  ValueId part_of(ValueId value, ValueId whole_value, int dim) {
    if (groups_ > 1) return part_of_groups(value, whole_value, dim);
    Shape part = graph_.type(value).shape;
    part[static_cast<std::size_t>(dim)] /= count_;
    return add("micro_slice", whole_value, Attrs().set("axis", dim).set("parts", count_), std::move(part), count_,
               value);
  }

  const Graph& graph_;
  const OpTable& ops_;
  MicrobatchLayouts layouts_;
  const int count_;
  const std::int64_t groups_;
  const Mesh axis_;
  ById<ValueId, ValueId> whole_;  // by old value: the value of the whole batch, filled once per launch
  Rewrite rewrite_;
  std::map<ValueId, ValueId> early_values_;
  std::map<std::pair<ValueId, int>, ValueId> parts_;  // by old value and dimension
};

}  // namespace

Graph microbatch(const Graph& graph, const OpTable& ops, int count, std::int64_t rows) {
  require(count >= 1, "microbatches must be at least 1, got ", count);
  if (count == 1) return graph;
  return MicrobatchRewriter(graph, ops, choose_microbatch_layouts(graph, count, rows)).run();
}

}  // namespace karez::passes
