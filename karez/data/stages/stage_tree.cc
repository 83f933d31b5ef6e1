// Divides the stages of a data set among actors.
#include "karez/data/stages/stage_tree.h"

#include "karez/data/stages/random_access.h"

namespace karez::data {
namespace {

using plan::Stage;
using plan::StageId;

// Whether reading an element of this data set by index would do the work of a stage with lanes, of a batch or of a
// prefetch.
bool combines(const DatasetNode& node) {
  if (node.collects() || node.lanes() > 1) return true;
  for (const DatasetNodeRef& input : node.inputs())
    if (combines(*input)) return true;
  return false;
}

struct Lanes {
  int count = 1;
  bool ordered = true;
};
// Of the stage with the most lanes in a subtree.
Lanes most_lanes(const DatasetNode& node) {
  Lanes lanes{node.lanes(), node.ordered()};
  for (const DatasetNodeRef& input : node.inputs()) {
    const Lanes other = most_lanes(*input);
    if (other.count > lanes.count) lanes = other;
  }
  return lanes;
}

class TreeBuilder {
 public:
  explicit TreeBuilder(bool sequential) : sequential_(sequential) {}

  // Adds the bodies of a subtree to the segment. Returns the number of its last body, or the port at which its elements
  // enter; the producers of ports are appended to `producers`.
  int add(const DatasetNodeRef& node, Segment& segment, std::vector<StageId>& producers) {
    if (node->slots() > 0) {
      if (sequential_) return add(node->inputs()[0], segment, producers);
      return add_port(segment_actor(node->inputs()[0], node->slots(), node->name()), segment, producers);
    }
    if (!sequential_ && node->permutes()) {
      if (const Lanes lanes = most_lanes(*node); lanes.count > 1)
        return add_port(index_actors(node, lanes), segment, producers);
    }
    if (node->permutes() || (node->size() && (sequential_ || !combines(*node))))
      return segment.add(random_access_body(node), {});
    if (!sequential_ && node->lanes() > 1) return add_port(lanes_actor(node), segment, producers);
    std::vector<int> inputs;
    for (const DatasetNodeRef& input : node->inputs()) inputs.push_back(add(input, segment, producers));
    for (std::unique_ptr<StageBody>& body : node->make_inner_bodies()) {
      if (sequential_ || !node->inner_actors()) {
        inputs.push_back(segment.add(std::move(body), {}));
        continue;
      }
      StageWork work;
      work.segment.add(std::move(body), {});
      inputs.push_back(
          add_port(add_actor({cat(node->name(), ": reader"), {}, 2}, std::move(work)), segment, producers));
    }
    return segment.add(node->make_body(), std::move(inputs));
  }

  StageId segment_actor(const DatasetNodeRef& node, int slots, std::string name) {
    StageWork work;
    std::vector<StageId> producers;
    const int last = add(node, work.segment, producers);
    if (last < 0 && producers.size() == 1) {  // the elements of another actor, unchanged
      tree.graph.stages[producers[0]].slots = std::max(tree.graph.stages[producers[0]].slots, slots);
      return producers[0];
    }
    return add_actor({std::move(name), std::move(producers), slots}, std::move(work));
  }

  StageTree tree;

 private:
  static int add_port(StageId producer, Segment& segment, std::vector<StageId>& producers) {
    producers.push_back(producer);
    return segment.add_port();
  }
  StageId add_actor(Stage stage, StageWork work) {
    tree.work.push_back(std::move(work));
    return tree.graph.stages.add(std::move(stage));
  }
  StageId lanes_actor(const DatasetNodeRef& node) {
    const Lanes lanes{node->lanes(), node->ordered()};
    if (node->size() && !combines(*node->inputs()[0])) return index_actors(node, lanes);
    const StageId input = segment_actor(node->inputs()[0], lanes.count + 1, node->inputs()[0]->name());
    return add_lanes(node, input, lanes, node->element_function());
  }
  // An actor that counts, and one whose lanes read elements by index.
  StageId index_actors(const DatasetNodeRef& node, const Lanes& lanes) {
    StageWork indices;
    indices.segment.add(index_body(node), {});
    const StageId input = add_actor({cat(node->name(), ": indices"), {}, lanes.count + 1}, std::move(indices));
    return add_lanes(node, input, lanes, read_by_index(node));
  }
  StageId add_lanes(const DatasetNodeRef& node, StageId input, const Lanes& lanes, ElementFunction function) {
    StageWork work;
    work.function = std::move(function);
    // Twice as many slots as lanes, so that lanes are busy while one of them computes for longer than the others.
    return add_actor({node->name(), {input}, 2 * lanes.count, lanes.count, lanes.ordered}, std::move(work));
  }

  bool sequential_;
};

}  // namespace

StageTree stage_tree(const DatasetNodeRef& root, int slots) {
  require(slots >= 1 && slots <= 32'767, "slots must be between 1 and 32767, got ", slots);
  TreeBuilder builder(false);
  builder.segment_actor(root, slots, root->name());
  verify(builder.tree.graph);
  return std::move(builder.tree);
}

bool is_ordered(const DatasetNode& root) {
  if (root.lanes() > 1 && !root.ordered()) return false;
  for (const DatasetNodeRef& input : root.inputs())
    if (!is_ordered(*input)) return false;
  return true;
}

bool has_index_state(const DatasetNode& root) {
  if (!root.size()) return false;
  if (root.permutes() || !combines(root)) return true;
  if (root.slots() > 0) return has_index_state(*root.inputs()[0]);
  // A function of each element passes on the state of its input.
  return root.element_function() != nullptr && has_index_state(*root.inputs()[0]);
}

Segment sequential_segment(const DatasetNodeRef& root) {
  TreeBuilder builder(true);
  Segment segment;
  std::vector<StageId> producers;
  builder.add(root, segment, producers);
  return segment;
}

}  // namespace karez::data
