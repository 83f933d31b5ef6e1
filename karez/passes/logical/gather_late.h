// gather_late: parameters that are stored in parts are put together right before they are read, and once more for the
// gradients.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Of a boxed graph. Where a variable travels between devices to be read, its boxes stand before the first node that
// reads them, behind the call before that (Node::after), instead of at the launch's begin, where nothing says that a
// layer's whole parameter is not wanted yet; and what nodes behind the first gradient read is put together again for
// them, so that no whole parameter is held from the forward pass to the backward one.
//   w' = box(w) all_gather                              h = ...
//   h = ...                                             w' = box(w) all_gather after h
//   y = matmul(h, w')                                   y = matmul(h, w')
//   dh = matmul(dy, w')                        ->       dy = ...
//                                                       w'' = box(w) all_gather after dy
//                                                       dh = matmul(dy, w'')
// What micro-batches read is put together once for all of them, and stays. The graph itself, where no variable travels.
Graph gather_late(Graph graph);

}  // namespace karez::passes
