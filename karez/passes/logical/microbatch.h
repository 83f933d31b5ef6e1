// microbatch: splits the batch in time. Nodes that depend on it act once for each micro-batch, and gradients are summed
// over the micro-batches.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The batch is dimension 0 of every input whose dimension 0 has size `batch`, except inputs with {unbatched=true}. If
// `batch` is 0, its size is that of dimension 0 of the first other input that has dimensions. The batch is Split in
// time, other inputs and variables are Broadcast, and index signatures determine the layout in time of every node:
//
//   x S(0), w B  ->  matmul S(0)            acts `count` times, on a `count`-th of the batch
//   x S(0), dy S(0)  ->  matmul P(sum)      the same, with an `accumulate` after it
//   w B, gradient B  ->  sgd                acts once
//
// The rows of inputs with {groups=G} form G groups of equal size, and each micro-batch has some rows of each group; the
// rows of all other inputs of the batch are divided in the same way.
//
// Types become those of one micro-batch. A sum over the whole batch that micro-batches wait for (such as the number of
// valid labels) is computed before the first micro-batch, if it depends on inputs and variables without a product.
// Errors name the node and its line: a count that does not divide the batch, a node that mixes rows of different
// micro-batches, a node that needs any other sum over all micro-batches to act on one, and a Partial that is not a sum.
Graph microbatch(const Graph& graph, const OpTable& ops, int count, std::int64_t batch = 0);

// Throws if `count` does not divide the batch; the error names the nearest counts that do.
void require_divides(std::int64_t batch, int count);

}  // namespace karez::passes
