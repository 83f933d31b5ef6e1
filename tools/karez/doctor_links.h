// Connects every pair of ranks and measures its link, one pair at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "karez/comm/launcher.h"
#include "karez/comm/peers.h"
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

// The pairs to measure: all; with more than 32 ranks, those whose numbers are a power of two apart.
std::vector<std::pair<int, int>> pairs_of(int ranks);

// All ranks call it with the same pairs; rank 0 gets the results. It takes about `seconds`; up to twice as long if
// pairs are broken, up to eight times as long if links are slow or machines busy. Pairs for which no time is left are
// left out.
std::vector<PairResult> measure_pairs(StoreClient& store, Peers& peers, const std::vector<std::pair<int, int>>& pairs,
                                      double seconds);

// The cost of each class of links: the median of its pairs.
std::vector<std::pair<std::string, LinkCost>> class_costs(const std::vector<PairResult>& results);

}  // namespace karez::tools
