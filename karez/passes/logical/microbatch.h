// Pass microbatch: splits the batch in time. Nodes that depend on the batch act once for each micro-batch, and
// gradients are summed over the micro-batches.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The batch is dimension 0 of every input whose dimension 0 has size `batch`, except inputs with {unbatched=true}. If
// `batch` is 0, the first input that has dimensions and is not unbatched determines the size. The batch is Split in
// time, other inputs and variables are Broadcast, and index signatures determine the layout in time of every node:
//
//   x S(0), w B  ->  matmul S(0)            acts `count` times, on a `count`-th of the batch
//   x S(0), dy S(0)  ->  matmul P(sum)      the same, with an `accumulate` after it
//   w B, gradient B  ->  sgd                acts once
//
// The rows of inputs with {groups=G} form G groups of equal size, and each micro-batch has some rows of each group; the
// rows of all other inputs of the batch are divided in the same way.
//
// Types become those of one micro-batch. A sum over the whole batch for which micro-batches wait (such as the number of
// valid labels) is computed before the first micro-batch, if it depends on inputs and variables without a product.
// Errors name the node and its line. Errors are: a count that does not divide the batch, a node that mixes rows of
// different micro-batches, a node that acts on one micro-batch but needs any other sum over all of them, and a Partial
// that is not a sum.
Graph microbatch(const Graph& graph, const OpTable& ops, int count, std::int64_t batch = 0);

}  // namespace karez::passes
