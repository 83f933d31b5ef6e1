// Divides the stages of a data set among actors.
#include "karez/data/stages/stage_tree.h"

#include <algorithm>
#include <optional>

#include "karez/data/dataset.h"
#include "karez/data/stages/random_access.h"

namespace karez::data {
namespace {

using plan::Stage;
using plan::StageId;

// Whether reading an element of this data set by index would do the work of a stage with lanes, of a batch or of a
// prefetch, or whether the size may become known later.
bool combines(const DatasetNode& node) {
  if (node.collects() || node.lanes() > 1 || node.changes_size()) return true;
  for (const DatasetNodeRef& input : node.inputs())
    if (combines(*input)) return true;
  return false;
}

// DatasetOptions::deterministic of the points after a stage.
using Deterministic = std::optional<bool>;

Deterministic before(const DatasetNode& node, Deterministic deterministic) {
  return deterministic || node.options() == nullptr ? deterministic : node.options()->deterministic;
}

bool is_fused(const DatasetNode& node) {
  const auto numbers = node.tuned_numbers();
  return numbers && numbers->fused && node.element_function() != nullptr;
}

struct Lanes {
  int count = 1;
  bool ordered = true;
  std::shared_ptr<TunedNumbers> tuned = nullptr;
  bool processes = false;
};
Lanes lanes_of(const DatasetNode& node, Deterministic deterministic) {
  if (node.lanes() == 1 || is_fused(node)) return {1, deterministic.value_or(node.ordered())};
  return {node.lanes(), deterministic.value_or(node.ordered()), node.tuned_numbers(), node.uses_processes()};
}
// Of the stage with the most lanes in a subtree.
Lanes most_lanes(const DatasetNode& node, Deterministic deterministic) {
  Lanes lanes = lanes_of(node, deterministic);
  for (const DatasetNodeRef& input : node.inputs()) {
    const Lanes other = most_lanes(*input, before(node, deterministic));
    if (other.count > lanes.count) lanes = other;
  }
  return lanes;
}

bool is_ordered(const DatasetNode& root, Deterministic deterministic) {
  const Lanes lanes = lanes_of(root, deterministic);
  if (lanes.count > 1 && !lanes.ordered) return false;
  if (root.inner_actors() && deterministic == false) return false;
  for (const DatasetNodeRef& input : root.inputs())
    if (!is_ordered(*input, before(root, deterministic))) return false;
  return true;
}

// The limit that an option sets, as DatasetOptions describes; 0: none.
template <class Number> Number limit_of(const DatasetNode& node, std::optional<Number> DatasetOptions::*option) {
  if (node.options() != nullptr && node.options()->*option) return *(node.options()->*option);
  Number limit = 0;
  for (const DatasetNodeRef& input : node.inputs())
    if (const Number other = limit_of(*input, option); limit == 0 || (other > 0 && other < limit)) limit = other;
  return limit;
}

// The last option counts; if only inputs of a stage have the option, `error` counts.
std::optional<Oversize> oversize_of(const DatasetNode& node) {
  if (node.options() != nullptr && node.options()->oversize) return node.options()->oversize;
  std::optional<Oversize> oversize;
  for (const DatasetNodeRef& input : node.inputs())
    if (const std::optional<Oversize> other = oversize_of(*input); other && oversize != Oversize::error)
      oversize = other;
  return oversize;
}

// The stage whose elements a node passes on unchanged.
const DatasetNode& stage_of(const DatasetNode& node) {
  return node.options() == nullptr ? node : stage_of(*node.inputs()[0]);
}

// Where a stage is in the description.
struct Position {
  int parent = -1, input = 0;  // see StageEntry
  Deterministic deterministic = {};
};

class TreeBuilder {
 public:
  explicit TreeBuilder(bool sequential) : sequential_(sequential) {}

  // Adds the bodies of a subtree to the segment. Returns the number of its last body, or the port at which its elements
  // enter; the producers of ports are appended to `producers`.
  int add(const DatasetNodeRef& node, const Position& at, StageWork& work, std::vector<StageId>& producers) {
    if (node->slots() > 0 || node->options() != nullptr) {
      const Position input = input_of(add_entry(node, at), 0, before(*node, at.deterministic));
      if (sequential_ || node->slots() == 0) return add(node->inputs()[0], input, work, producers);
      const StageId actor = segment_actor(node->inputs()[0], input, node->slots(), node->name());
      if (const auto numbers = node->tuned_numbers()) tune_slots(actor, numbers);
      else keep_slots(actor, node->slots());
      return add_port(actor, work, producers);
    }
    if (!sequential_ && node->permutes()) {
      if (const Lanes lanes = most_lanes(*node, at.deterministic); lanes.count > 1)
        return add_port(index_actors(node, at, lanes), work, producers);
    }
    if (node->permutes() || (node->size() && (sequential_ ? !has_changing_size(*node) : !combines(*node))))
      return add_body(random_access_body(node), {}, add_index_entries(node, at, work), work);
    if (!sequential_ && lanes_of(*node, at.deterministic).count > 1)
      return add_port(lanes_actor(node, at), work, producers);
    if (!sequential_ && is_fused(*node)) {
      work.fused.push_back(node->tuned_numbers());
      if (node->size() && !combines(*node->inputs()[0]))
        return add_body(random_access_body(node), {}, add_index_entries(node, at, work), work);
    }
    const int entry = add_entry(node, at);
    if (std::unique_ptr<StageBody> body = node->make_indexed_body()) {
      add_index_entries(node->inputs()[0], input_of(entry, 0, at.deterministic), work);
      work.entries.push_back(entry);
      return add_body(std::move(body), {}, entry, work);
    }
    std::vector<int> inputs;
    if (const BatchRule* rule = node->batch_rule()) {
      const DatasetNodeRef& rows = node->inputs()[0];
      if (std::unique_ptr<StageBody> body = rows->make_batch_body(*rule)) {
        const int inner = add_entry(rows, input_of(entry, 0, at.deterministic));
        inputs.push_back(add(rows->inputs()[0], input_of(inner, 0, at.deterministic), work, producers));
        work.entries.push_back(inner);
        work.entries.push_back(entry);
        return add_body(std::move(body), std::move(inputs), entry, work);
      }
    }
    for (const DatasetNodeRef& input : node->inputs())
      inputs.push_back(add(input, input_of(entry, static_cast<int>(inputs.size()), at.deterministic), work, producers));
    work.entries.push_back(entry);
    const bool inner_actors = !sequential_ && node->inner_actors();
    const bool ordered = at.deterministic != false;
    const InnerBodies kind = !inner_actors ? InnerBodies::sequential
                             : ordered     ? InnerBodies::ordered_actors
                                           : InnerBodies::unordered_actors;
    TunedUnit readers;
    for (std::unique_ptr<StageBody>& body : node->make_inner_bodies(kind)) {
      if (!inner_actors) {
        inputs.push_back(add_body(std::move(body), {}, entry, work));
        continue;
      }
      StageWork inner;
      add_body(std::move(body), {}, -1, inner);
      readers.numbers = node->tuned_numbers();
      const int slots = readers.numbers ? most_tuned_slots : 2;
      readers.stages.push_back(add_actor({cat(node->name(), ": reader"), {}, slots}, std::move(inner)));
      inputs.push_back(add_port(readers.stages.back(), work, producers));
    }
    readers.most_lanes = static_cast<int>(readers.stages.size()), readers.least_slots = 2;
    if (readers.numbers) tree.tuned.push_back(std::move(readers));
    return add_body(inner_actors ? node->make_body_of_actors(ordered) : node->make_body(), std::move(inputs), entry,
                    work);
  }

  StageId segment_actor(const DatasetNodeRef& node, const Position& at, int slots, std::string name) {
    StageWork work;
    std::vector<StageId> producers;
    const int last = add(node, at, work, producers);
    if (last < 0 && producers.size() == 1) {  // the elements of another actor, unchanged
      tree.graph.stages[producers[0]].slots = std::max(tree.graph.stages[producers[0]].slots, slots);
      if (int& single = tree.work[producers[0]].single_slots; single > 0) single = std::max(single, slots);
      return producers[0];
    }
    return add_actor({std::move(name), std::move(producers), slots}, std::move(work));
  }

  // The unit of a stage in the tree; null if its numbers are not chosen.
  TunedUnit* unit_of(StageId stage) {
    for (TunedUnit& unit : tree.tuned)
      if (std::find(unit.stages.begin(), unit.stages.end(), stage) != unit.stages.end()) return &unit;
    return nullptr;
  }
  // Lets the slots of a stage be chosen. They were `least` at least.
  TunedUnit& tune_slots(StageId stage, std::shared_ptr<TunedNumbers> numbers = nullptr) {
    if (TunedUnit* unit = unit_of(stage)) return *unit;
    Stage& tuned = tree.graph.stages[stage];
    const int least = std::max(kept_slots(stage), tuned.lanes > 1 ? 2 * tuned.lanes : 1);
    tuned.slots = std::max(tuned.slots, most_tuned_slots);
    tree.tuned.push_back(
        {.stages = {stage}, .least_slots = least, .most_slots = tuned.slots, .numbers = std::move(numbers)});
    return tree.tuned.back();
  }
  // The description contains this number of slots.
  int kept_slots(StageId stage) const { return kept_slots_.has(stage) ? kept_slots_[stage] : 0; }
  void keep_slots(StageId stage, int slots) {
    while (!kept_slots_.has(stage)) kept_slots_.push_back(0);
    kept_slots_[stage] = std::max(kept_slots_[stage], slots);
    if (TunedUnit* unit = unit_of(stage)) {
      unit->most_slots = std::max(unit->most_slots, tree.graph.stages[stage].slots);
      unit->least_slots = std::max(unit->least_slots, slots);
    }
  }

  StageTree tree;

 private:
  static Position input_of(int entry, int input, Deterministic deterministic) { return {entry, input, deterministic}; }
  int add_entry(const DatasetNodeRef& node, const Position& at, bool by_index = false) {
    const int entry = static_cast<int>(tree.entries.size());
    tree.entries.push_back({node, at.parent, at.input, by_index, entry + 1});
    return entry;
  }
  // Adds the entries of stages that are read by index. Returns the entry of the last stage.
  int add_index_entries(const DatasetNodeRef& node, const Position& at, StageWork& work) {
    const int entry = add_entry(node, at, true);
    int input = 0;
    for (const DatasetNodeRef& other : node->inputs()) add_index_entries(other, {entry, input++}, work);
    tree.entries[static_cast<std::size_t>(entry)].end = static_cast<int>(tree.entries.size());
    if (node->options() == nullptr && node->slots() == 0) work.entries.push_back(entry);
    return entry;
  }
  static int add_body(std::unique_ptr<StageBody> body, std::vector<int> inputs, int entry, StageWork& work) {
    work.body_entries.push_back(entry);
    return work.segment.add(std::move(body), std::move(inputs));
  }
  static int add_port(StageId producer, StageWork& work, std::vector<StageId>& producers) {
    producers.push_back(producer);
    return work.segment.add_port();
  }
  StageId add_actor(Stage stage, StageWork work) {
    tree.work.push_back(std::move(work));
    return tree.graph.stages.add(std::move(stage));
  }
  StageId lanes_actor(const DatasetNodeRef& node, const Position& at) {
    const Lanes lanes = lanes_of(*node, at.deterministic);
    const DatasetNodeRef& input = node->inputs()[0];
    if (node->size() && !combines(*input)) return index_actors(node, at, lanes);
    StageWork work;
    const int entry = add_entry(node, at);
    work.entries.push_back(entry);
    const StageId producer =
        segment_actor(input, input_of(entry, 0, at.deterministic), lanes.count + 1, stage_of(*input).name());
    if (!lanes.tuned) keep_slots(producer, lanes.count + 1);
    work.group_function = node->element_group_function();
    return add_lanes(node, producer, lanes, node->element_function(), std::move(work));
  }
  // An actor that counts, and one whose lanes read elements by index.
  StageId index_actors(const DatasetNodeRef& node, const Position& at, const Lanes& lanes) {
    StageWork indices, work;
    add_body(index_body(node), {}, -1, indices);
    const StageId input = add_actor({cat(node->name(), ": indices"), {}, lanes.count + 1}, std::move(indices));
    add_index_entries(node, at, work);
    work.group_function = read_group_by_index(node);
    return add_lanes(node, input, lanes, read_by_index(node), std::move(work));
  }
  StageId add_lanes(const DatasetNodeRef& node, StageId input, const Lanes& lanes, ElementFunction function,
                    StageWork work) {
    work.function = std::move(function);
    if (lanes.tuned) {
      TunedUnit& read = tune_slots(input);
      read.consumer = static_cast<int>(tree.tuned.size());
      const int slots = std::max(2 * lanes.count, most_tuned_slots);
      const StageId stage = add_actor({node->name(), {input}, slots, lanes.count, lanes.ordered}, std::move(work));
      tree.tuned.push_back({.stages = {stage},
                            .most_lanes = lanes.count,
                            .most_slots = slots,
                            .processes = lanes.processes,
                            .numbers = lanes.tuned});
      return stage;
    }
    // Slots for groups of the largest size; fewer are used while groups are smaller.
    if (work.group_function) work.most_group = std::clamp(512 / lanes.count, 1, 32);
    if (work.most_group > 1) {
      Stage& read = tree.graph.stages[input];
      if (int& single = tree.work[input].single_slots; single == 0) single = read.slots;
      read.slots = std::max(read.slots, lanes.count * work.most_group + 1);
      work.single_slots = 2 * lanes.count;
    }
    // Twice as many slots as lanes, so that lanes are busy while one of them computes for longer than the others.
    const int slots = 2 * lanes.count * work.most_group;
    return add_actor({node->name(), {input}, slots, lanes.count, lanes.ordered}, std::move(work));
  }

  bool sequential_;
  ById<StageId, int> kept_slots_;
};

std::string names_of(const std::vector<StageEntry>& entries, std::span<const int> numbers, bool says_more,
                     bool has_lines) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const StageEntry& entry = entries[static_cast<std::size_t>(numbers[i])];
    const bool more = i + 1 < numbers.size() && entries[static_cast<std::size_t>(numbers[i + 1])].by_index;
    out += cat(i == 0 ? "" : ", ", entry.node->name());
    if (const std::string place = says_more ? entry.node->place() : ""; !place.empty()) out += cat(" ", place);
    if (says_more && entry.by_index && !more) out += " (by index)";
    const auto line_of = [&](std::size_t k) { return entries[static_cast<std::size_t>(numbers[k])].node->line(); };
    if (has_lines && !line_of(i).empty() && (i + 1 == numbers.size() || line_of(i + 1) != line_of(i)))
      out += cat(" at ", line_of(i));
  }
  return out;
}

}  // namespace

bool StageTree::has_automatic_numbers() const {
  return !tuned.empty() ||
         std::any_of(work.begin(), work.end(), [](const StageWork& executed) { return !executed.fused.empty(); });
}

std::string StageTree::stages_text(StageId actor, bool has_lines) const {
  const StageWork& executed = work[actor];
  return executed.entries.empty() ? graph.stages[actor].name : names_of(entries, executed.entries, true, has_lines);
}

std::string StageTree::current_stage(StageId actor) const {
  const StageWork& executed = work[actor];
  if (executed.function) return names_of(entries, executed.entries, false, false);
  const int entry = executed.body_entries[static_cast<std::size_t>(executed.segment.current())];
  if (entry < 0) return graph.stages[actor].name;
  const StageEntry& stage = entries[static_cast<std::size_t>(entry)];
  if (!stage.by_index) return stage.node->name();
  std::vector<int> numbers;
  for (int number : executed.entries)
    if (number >= entry && number < stage.end) numbers.push_back(number);
  return names_of(entries, numbers, false, false);
}

StageTree stage_tree(const DatasetNodeRef& root, int slots) {
  require(slots == automatic || (slots >= 1 && slots <= 32'767), "slots must be between 1 and 32767, got ", slots);
  TreeBuilder builder(false);
  const StageId last = builder.segment_actor(root, {}, slots == automatic ? 2 : slots, stage_of(*root).name());
  if (slots != automatic) builder.keep_slots(last, slots);
  else if (!builder.tree.tuned.empty() && builder.kept_slots(last) == 0) builder.tune_slots(last);
  builder.tree.bytes = limit_of(*root, &DatasetOptions::bytes);
  builder.tree.oversize = oversize_of(*root).value_or(Oversize::pass);
  builder.tree.cpu = limit_of(*root, &DatasetOptions::cpu);
  builder.tree.ordered = is_ordered(*root);
  verify(builder.tree.graph);
  return std::move(builder.tree);
}

bool is_ordered(const DatasetNode& root) { return is_ordered(root, std::nullopt); }

bool has_index_state(const DatasetNode& root) {
  if (!root.size()) return false;
  if (root.permutes() || !combines(root)) return true;
  if (root.slots() > 0 || root.options() != nullptr) return has_index_state(*root.inputs()[0]);
  // A function of each element passes on the state of its input.
  return root.element_function() != nullptr && has_index_state(*root.inputs()[0]);
}

Segment sequential_segment(const DatasetNodeRef& root) {
  TreeBuilder builder(true);
  StageWork work;
  std::vector<StageId> producers;
  builder.add(root, {}, work, producers);
  return std::move(work.segment);
}

}  // namespace karez::data
