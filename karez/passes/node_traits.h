// Properties of nodes that several passes need.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// True if the node that computes the variable's next version may overwrite the old version: the node reads the old
// version directly and declares the operand as in-place, and no node reads the new version in this step.
bool updates_in_place(const Graph& graph, const Variable& variable);
std::vector<bool> updates_in_place(const Graph& graph);  // the same for every variable

// True for changes of layout that move bytes between devices, and for transfers between placements.
bool crosses_devices(const Node& node);

// True for ops whose result may be a window on the memory of their operand.
bool may_alias(const Node& node);

// Follows windows to the value that owns the memory, as far as the ops alone determine it. Returns `value` itself if it
// owns its memory.
ValueId source_of(const Graph& graph, ValueId value);

}  // namespace karez::passes
