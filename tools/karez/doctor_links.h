// Connects every pair of ranks and measures its link, one pair at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "karez/comm/rendezvous/launcher.h"
#include "karez/comm/rendezvous/peers.h"
#include "tools/karez/measure_link.h"
#include "tools/namespace.h"

namespace karez::tools {

struct PairResult {
  int lower = 0, higher = 0;
  std::string link;     // "shm", "tcp"
  LinkMeasure measure;  // as the lower rank measured it
  std::string broken;   // the error; "" if there was none
};
std::string print(const PairResult& result);
PairResult parse_pair(std::string_view text);

// Returns the pairs to measure: all pairs, or, with more than 32 ranks, the pairs whose ranks differ by a power of two.
std::vector<std::pair<int, int>> pairs_of(int ranks);

// All ranks call this function with the same pairs; rank 0 gets the results. It takes about `seconds`, up to twice as
// long if pairs are broken, and up to eight times as long if links are slow or machines busy. Pairs for which no time
// is left are omitted.
std::vector<PairResult> measure_pairs(StoreClient& store, Peers& peers, const std::vector<std::pair<int, int>>& pairs,
                                      double seconds);

// Returns the cost of each class of links: the median of its pairs.
std::vector<std::pair<std::string, LinkCost>> class_costs(const std::vector<PairResult>& results);

}  // namespace karez::tools
