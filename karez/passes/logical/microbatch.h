// Pass microbatch: splits the batch in time. Nodes that depend on the batch act once for each micro-batch, and
// gradients are summed over the micro-batches.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The batch is dimension 0 of every input whose dimension 0 has size `batch`, except inputs with {unbatched=true}. If
// `batch` is 0, the first input that has dimensions and is not unbatched determines the size. Micro-batches are treated
// like devices along an axis, time. On this axis the batch is Split, and other inputs and variables are Broadcast; the
// index signatures of ops determine the layout of every node:
//
//   x S(0), w B  ->  matmul S(0)            acts `count` times, each time on 1 / count of the batch
//   x S(0), dy S(0)  ->  matmul P(sum)      the same, with an `accumulate` after it
//   w B, gradient B  ->  sgd                acts once
//
// The rows of inputs with {groups=G} form G groups of equal size, and each micro-batch takes an equal share of each
// group. The rows of all other inputs of the batch are divided in the same way.
//
// Types become those of one micro-batch. If micro-batches wait for a sum over the whole batch (such as the number of
// valid labels), the sum is computed before the first micro-batch, provided that it can be computed from inputs and
// variables without a matrix product or convolution. Fails if `count` does not divide the batch. Also fails, with the
// node and its line, if a node mixes rows of different micro-batches, if a node that acts on one micro-batch needs any
// other sum over all micro-batches, and if a value is P(max) or P(min) in time.
Graph microbatch(const Graph& graph, const OpTable& ops, int count, std::int64_t batch = 0);

}  // namespace karez::passes
