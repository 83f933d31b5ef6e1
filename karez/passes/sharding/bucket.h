// bucket: merges all_reduces of small values, mostly gradients, into fewer and larger all_reduces.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The box nodes of several all_reduces that are sent as one. They have the same mesh, axis, layout and data type, act
// once per launch, and do not depend on each other.
using Bucket = std::vector<NodeId>;

// Groups all_reduces of values of at most `bytes` bytes, in graph order, into buckets of at most `bytes` bytes. Larger
// all_reduces are not grouped, nor are those that no other all_reduce matches. Values that another axis splits are not
// grouped either, because the concatenation of one device's parts is not a part of the concatenated values. Axes with a
// latency below ten microseconds per message are skipped, because the cost table does not include the time of an
// additional act and its messages.
std::vector<Bucket> buckets_of(const Graph& graph, const CostTable& costs, std::int64_t bytes);

// Returns the graph with one box node for each bucket. Its operand is the concatenation of the members' operands, and
// the results of the members are windows on its result.
Graph merge_buckets(const Graph& graph, const OpTable& ops, const std::vector<Bucket>& buckets);

struct BucketedGraph {
  Graph graph;
  std::int64_t bytes = 0;                  // size limit of a bucket; 0 if no bucket saves time
  double seconds = 0, seconds_before = 0;  // predicted duration of a launch; 0 if no bucket is possible
};

// A bucket saves the messages of all but one of its members, but it costs a copy of the members, and the first member
// has to wait for the last. The size limit is halved repeatedly, starting at the bytes of all candidates, and a launch
// with each limit is simulated in virtual time (order.h). The simulation is needed because buckets that save time on a
// link of high latency (alpha) may lose time by waiting on a link of low bandwidth (beta). The limit with the fastest
// launch is used if it saves at least 0.2 % of the launch. `slots` is CompileOptions::slots.
BucketedGraph bucket(Graph graph, const OpTable& ops, const CostTable& costs, int slots);

}  // namespace karez::passes
