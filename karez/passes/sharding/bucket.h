// bucket: all_reduces of small values, gradients mostly, go together in fewer and larger ones.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// all_reduces that travel as one: box nodes of one mesh, axis, layout, dtype and rate, none of which waits for another.
using Bucket = std::vector<NodeId>;

// In the order of the graph, those of at most `bytes` put into buckets of at most so many; larger ones stay alone, and
// so does who finds no company. Values that another axis splits stay alone too: what one device has of them, laid end
// to end, is no part of what all have. Axes whose messages take less than ten microseconds are left alone: what another
// act and its messages take is not in the cost table.
std::vector<Bucket> buckets_of(const Graph& graph, const CostTable& costs, std::int64_t bytes);

// The graph in which each bucket is one box: its values laid end to end, and windows on what comes out.
Graph merge_buckets(const Graph& graph, const OpTable& ops, const std::vector<Bucket>& buckets);

struct BucketedGraph {
  Graph graph;
  std::int64_t bytes = 0;                  // of a bucket, at most; 0: none pays
  double seconds = 0, seconds_before = 0;  // of a launch, predicted; 0 where nothing was looked for
};

// A bucket saves the messages of all but one of its members, and costs a copy of them and the wait of the first for the
// last. How large one may be is tried by halves from all that there is, each size in virtual time (order.h): what a
// link of long alpha wins, one of long beta may lose by its wait. The cheapest stays where it is worth two thousandths
// of the launch.
BucketedGraph bucket(Graph graph, const OpTable& ops, const CostTable& costs, int streams_meet);

}  // namespace karez::passes
