// bucket: merges all_reduces of small values, mostly gradients, into fewer and larger all_reduces.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The all_reduces that are sent as one: box nodes of one mesh, axis, layout, dtype and rate, which do not depend on
// each other.
using Bucket = std::vector<NodeId>;

// Groups all_reduces of at most `bytes`, in graph order, into buckets of at most `bytes`. Larger all_reduces are not
// grouped, nor are those without a partner. Values that another axis splits are not grouped either, because the
// concatenation of one device's parts is not a part of the concatenated values. Axes with messages of less than ten
// microseconds are skipped, because the cost table does not include the time of an additional act and its messages.
std::vector<Bucket> buckets_of(const Graph& graph, const CostTable& costs, std::int64_t bytes);

// Returns the graph in which each bucket is one box, whose operands are concatenated and whose results are windows on
// the sum.
Graph merge_buckets(const Graph& graph, const OpTable& ops, const std::vector<Bucket>& buckets);

struct BucketedGraph {
  Graph graph;
  std::int64_t bytes = 0;                  // size limit of a bucket; 0 if no bucket saves time
  double seconds = 0, seconds_before = 0;  // predicted duration of a launch; 0 if no bucket is possible
};

// A bucket saves the messages of all but one of its members; it costs a copy of the members, and the first member waits
// for the last. The size limit is halved repeatedly, starting at the bytes of all candidates, and each limit is
// simulated in virtual time (order.h): buckets that save time on a link of high latency (alpha) may lose time by
// waiting on a link of low bandwidth (beta). The fastest limit is used if it saves at least 0.2 % of the launch.
BucketedGraph bucket(Graph graph, const OpTable& ops, const CostTable& costs, int streams_meet);

}  // namespace karez::passes
