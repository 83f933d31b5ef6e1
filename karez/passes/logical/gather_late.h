// Rewrite gather_late: sharded parameters are gathered right before they are read, and again for the gradients.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Rewrites a graph after the box pass. If a variable must be transferred between devices before a node can read it, its
// box nodes move to the position right before their first reader. A control edge (Node::after) makes them wait for the
// preceding compute node; without that edge they could run at the start of the launch, long before the gathered
// parameter is needed. The first gradient node and all later nodes read a second gathered copy, so that no gathered
// parameter is held from the forward to the backward pass.
//   w' = box(w) all_gather                              h = ...
//   h = ...                                             w' = box(w) all_gather after h
//   y = matmul(h, w')                                   y = matmul(h, w')
//   dh = matmul(dy, w')                        ->       dy = ...
//                                                       w'' = box(w) all_gather after dy
//                                                       dh = matmul(dy, w'')
// A variable that micro-batches read is gathered once for all micro-batches. If no variable is transferred, returns the
// graph unchanged.
Graph gather_late(Graph graph);

}  // namespace karez::passes
