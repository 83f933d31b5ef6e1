// microbatch: cuts the batch in time. What depends on it acts once for each micro-batch, gradients are summed over
// them.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The batch is dimension 0 of every input whose dimension 0 is `batch`, but for those with {unbatched=true}; of the
// first other one that has dimensions, where `batch` is 0. It is Split in time, all else that comes from outside is
// Broadcast, and from their index signatures follows how every node lies in time:
//
//   x S(0), w B  ->  matmul S(0)            acts `count` times, on a `count`-th of the batch
//   x S(0), dy S(0)  ->  matmul P(sum)      likewise, and an `accumulate` behind it
//   w B, gradient B  ->  sgd                acts once
//
// Inputs with {groups=G} come in G groups of equal size, of which each micro-batch has some rows; so are the rows of
// all other inputs of the batch taken.
//
// Types become those of one micro-batch. A sum over the whole batch that micro-batches wait for (how many labels count)
// is made before the first of them, where it follows from inputs and variables without a product. Errors name the node
// and its line: a count that does not divide the batch, what mixes rows of different micro-batches, what waits for all
// of them otherwise, a Partial that is no sum.
Graph microbatch(const Graph& graph, const OpTable& ops, int count, std::int64_t batch = 0);

// Throws where `count` does not divide the batch, and names the nearest that do.
void require_divides(std::int64_t batch, int count);

}  // namespace karez::passes
