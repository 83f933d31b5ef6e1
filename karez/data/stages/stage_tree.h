// Turns the description of a data set into actors: segments, functions with several lanes, and their protocol's graph.
#pragma once

#include <memory>
#include <vector>

#include "karez/base/by_id.h"
#include "karez/data/namespace.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/segment.h"
#include "karez/plan/stages.h"

namespace karez::data {

// The work of one actor: a segment, or a function that several lanes call at the same time for the elements of the only
// input.
struct StageWork {
  Segment segment;
  ElementFunction function = nullptr;
};

struct StageTree {
  plan::StageGraph graph;
  ById<plan::StageId, StageWork> work;
};

// Actors end at stages with several lanes, at `prefetch` and at the reader; the stages between them form one segment.
// The last actor has `slots` slots.
StageTree stage_tree(const DatasetNodeRef& root, int slots = 2);

// Whether every stage passes elements on in the order of its input.
bool is_ordered(const DatasetNode& root);

// Whether a state of the stream is one number: the index of the next element.
bool has_index_state(const DatasetNode& root);

// All stages as one segment without ports, for a caller that needs one element after the other.
Segment sequential_segment(const DatasetNodeRef& root);

}  // namespace karez::data
