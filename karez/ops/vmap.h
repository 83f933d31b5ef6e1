// vmap on graphs: adds the nodes of a body to a graph once for all elements of a batch. A value that depends on the
// batch gets one more dimension, the first one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// A value of the program that stands for a value of the body. If it is mapped, its dimension 0 is that of the batch.
struct MappedValue {
  ValueId id;
  bool is_mapped = false;
};

// Random numbers in the body: an error, or the same or different ones for the elements of the batch.
enum class Randomness { error, same, different };

// The elements `begin` to `begin + size` of a batch of `total` elements, of which each gets the same random numbers
// whether or not the batch is computed in parts.
struct MappedBatch {
  std::int64_t size = 0, begin = 0, total = 0;
  Randomness randomness = Randomness::error;
};

// Adds the nodes of a body to the graph of the builder, with a value for each argument of the body, and returns the
// values of its outputs. Nodes that do not depend on the batch are added as they are. Throws an error with the user's
// line if a node that depends on the batch has an op without a rule (vmap_rules.h).
std::vector<MappedValue> vmap(Builder& b, const Graph& body, std::span<const MappedValue> arguments,
                              const MappedBatch& batch);

}  // namespace karez::ops
