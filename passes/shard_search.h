// The search for layouts: exact on one mesh axis; on several axis after axis, beside a bound, and exactly among the layouts that it leaves open.
#pragma once

#include <string>

#include "passes/shard.h"

namespace karez::passes {

struct Searched {
  ById<NodeId, int> chosen;
  double cost = 0, bound = 0;  // seconds: true price of the choice; what every choice costs at least
  bool optimal = false;
  std::string method;  // for people
};
Searched search_layouts(const Graph& graph, const Choices& choices, TreePrices& prices);

}  // namespace karez::passes
