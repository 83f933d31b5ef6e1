// Turns the description of a data set into actors: segments, functions with several lanes, and their protocol's graph.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "karez/base/by_id.h"
#include "karez/data/dataset.h"
#include "karez/data/namespace.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/segment.h"
#include "karez/data/tuning/tuner.h"
#include "karez/plan/stages.h"

namespace karez::data {

// The work of one actor: a segment, or a function that several lanes call at the same time for the elements of the only
// input.
struct StageWork {
  Segment segment;
  ElementFunction function = nullptr;
  // Calls the function for several elements; null: there is no such function. At most for this number of them.
  ElementGroupFunction group_function = nullptr;
  int most_group = 1;
  int single_slots = 0;  // if not 0: the slots in use while elements are computed one by one
  // For people: the stages of the description that this actor executes, as numbers of StageTree::entries, each after
  // its inputs; and the stage of each body of the segment (-1: none).
  std::vector<int> entries = {};
  std::vector<int> body_entries = {};
  std::vector<std::shared_ptr<TunedNumbers>> fused = {};  // of functions with automatic lanes that this actor calls
};

// A stage of the description.
struct StageEntry {
  DatasetNodeRef node;
  int parent = -1, input = 0;  // the entry whose input this is, and the number of the input
  bool by_index = false;       // its elements are read by index
  int end = 0;                 // past the entries of the stages before this one
};

struct StageTree {
  plan::StageGraph graph;
  ById<plan::StageId, StageWork> work;
  std::vector<StageEntry> entries;
  std::int64_t bytes = 0;  // the limit of DatasetOptions::bytes; 0: none
  Oversize oversize = Oversize::pass;
  int cpu = 0;                   // the limit of DatasetOptions::cpu; 0: none
  std::vector<TunedUnit> tuned;  // the stages whose lanes or slots are chosen while the stream runs
  bool ordered = true;           // see is_ordered

  bool has_automatic_numbers() const;
  // The stages that an actor executes, each after its inputs: "range(0, 5, 1) (by index), filter". With lines:
  // "range(0, 5, 1) (by index), filter at train.py:12".
  std::string stages_text(plan::StageId actor, bool has_lines = false) const;
  // The stage of an actor that acts now; any thread may call it: "map(decode)".
  std::string current_stage(plan::StageId actor) const;
};

// Whether a stream may go on at this state without reading elements again or copying the state of a generator.
bool continues_at(const StageTree& tree, const StreamState* state);

// Actors end at stages with several lanes, at `prefetch` and at the reader; the stages between them form one segment.
// The last actor has `slots` slots, or if they are automatic: 2, unless other numbers of the data set are automatic
// too.
StageTree stage_tree(const DatasetNodeRef& root, int slots = automatic);

// Whether every stage passes elements on in the order of its input.
bool is_ordered(const DatasetNode& root);

// Whether a state of the stream is one number: the index of the next element.
bool has_index_state(const DatasetNode& root);

// All stages as one segment without ports, for a caller that needs one element after the other.
Segment sequential_segment(const DatasetNodeRef& root);

}  // namespace karez::data
