// Properties of nodes that several passes need.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// True if the node that makes the variable's next version may overwrite the old one: it reads the old version directly,
// declares the operand as in-place, and no other node reads the new version in this step.
bool updates_in_place(const Graph& graph, const Variable& variable);
std::vector<bool> updates_in_place(const Graph& graph);  // of every variable

// True for changes of layout that move bytes between devices, and for transfers between placements.
bool crosses_devices(const Node& node);

// True for ops with a result that may be a window on their operand's bytes.
bool may_alias(const Node& node);

// The value with the bytes that this one shows, as far as the ops alone determine it: the value itself if it has its
// own bytes.
ValueId source_of(const Graph& graph, ValueId value);

}  // namespace karez::passes
