// gather_late: sharded parameters are gathered right before they are read, and again for the gradients.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Takes a boxed graph. If a variable is transferred between devices to be read, its boxes move right before the first
// node that reads them, after the preceding call (Node::after). Without that edge they could run at the start of the
// launch, when the whole parameter is not needed yet. Nodes from the first gradient on read a second copy, so that no
// whole parameter is held from the forward pass to the backward pass.
//   w' = box(w) all_gather                              h = ...
//   h = ...                                             w' = box(w) all_gather after h
//   y = matmul(h, w')                                   y = matmul(h, w')
//   dh = matmul(dy, w')                        ->       dy = ...
//                                                       w'' = box(w) all_gather after dy
//                                                       dh = matmul(dy, w'')
// A variable that micro-batches read is gathered once for all of them. If no variable is transferred, the graph is
// returned unchanged.
Graph gather_late(Graph graph);

}  // namespace karez::passes
