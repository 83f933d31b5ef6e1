// bucket: merges all_reduces of small values, mostly gradients, into fewer and larger ones.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// all_reduces that are sent as one: box nodes of one mesh, axis, layout, dtype and rate, none of which depends on
// another.
using Bucket = std::vector<NodeId>;

// Groups all_reduces of at most `bytes`, in graph order, into buckets of at most `bytes`; larger ones stay alone, and
// so do those without a partner. Values that another axis splits stay alone too: the concatenation of one device's
// parts is not a part of the concatenated values. Axes with messages of less than ten microseconds are skipped, because
// the cost table does not include the time of another act and its messages.
std::vector<Bucket> buckets_of(const Graph& graph, const CostTable& costs, std::int64_t bytes);

// The graph in which each bucket is one box: its operands are concatenated, and its results are windows on the sum.
Graph merge_buckets(const Graph& graph, const OpTable& ops, const std::vector<Bucket>& buckets);

struct BucketedGraph {
  Graph graph;
  std::int64_t bytes = 0;                  // limit of a bucket; 0: no bucket pays
  double seconds = 0, seconds_before = 0;  // of a launch, predicted; 0 if no bucket is possible
};

// A bucket saves the messages of all but one of its members, and costs a copy of them and the wait of the first for the
// last. The size limit is halved repeatedly, from the bytes of all candidates, and each limit is simulated in virtual
// time (order.h): buckets that pay on a link of high latency (alpha) may lose by their wait on one of low bandwidth
// (beta). The fastest limit is used if it saves at least 0.2 % of the launch.
BucketedGraph bucket(Graph graph, const OpTable& ops, const CostTable& costs, int streams_meet);

}  // namespace karez::passes
