// Hashes the graph, the cost table, slots and turns.
#include "karez/passes/lowering/program_hash.h"

#include "karez/base/hash.h"
#include "karez/base/text.h"
#include "karez/graph/print.h"

namespace karez::passes {

std::uint64_t program_hash(const Compilation& c) {
  Hash hash;
  CostTable costs = c.options.costs;
  costs.origin.clear();  // may contain a path
  hash.add(print_without_sources(c.graph)).add(costs.print());
  for (int slots : c.slot_assignment.slots) hash.add(static_cast<std::uint64_t>(slots));
  for (const std::vector<int>& turns : c.slot_assignment.turns) hash.add(join(turns, " "));
  hash.add(static_cast<std::uint64_t>(c.options.team));  // results depend on the team
  return hash.value();
}

}  // namespace karez::passes
