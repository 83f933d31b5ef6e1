// Properties of nodes that several passes need.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// For each variable, true if the node that computes its next version may overwrite the old version. The node must read
// the old version directly and declare this operand as in-place, and no node may read the new version in the same step.
std::vector<bool> updates_in_place(const Graph& graph);

// True if each mesh has one device, so that Broadcast is the only layout and no layout ever changes.
bool has_only_single_devices(const Graph& graph);

// True for changes of layout that move bytes between devices, and for transfers between placements.
bool crosses_devices(const Node& node);

// True for ops whose result may be a window on the memory of their operand.
bool may_alias(const Node& node);

// Follows `value` back through the nodes that may alias their operand, to the value whose memory it may show. Returns
// `value` itself if the node that computes it cannot alias.
ValueId source_of(const Graph& graph, ValueId value);

}  // namespace karez::passes
