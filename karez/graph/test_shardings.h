// For tests: prints the sharding of a node.
#pragma once

#include <string>
#include <vector>

#include "karez/base/text.h"
#include "karez/graph/namespace.h"
#include "karez/graph/op.h"

namespace karez::graph {

// Returns a text such as "S(0), B -> S(0)".
inline std::string print(const Sharding& sharding) {
  auto side = [](const std::vector<Sbp>& entries) { return join(entries, ", ", [](Sbp sbp) { return print(sbp); }); };
  return sharding.in.empty() ? cat("-> ", side(sharding.out)) : cat(side(sharding.in), " -> ", side(sharding.out));
}

}  // namespace karez::graph
