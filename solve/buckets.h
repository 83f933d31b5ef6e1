// Bucket elimination on cost graphs: exact while tables stay under a cap, a bound (mini-buckets) and a search guided by it beyond.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "solve/cost_graph.h"
#include "solve/elimination_order.h"

namespace karez::solve {

// A table that results when `variable` is minimised out of the sum of its inputs: below the number of tables of the graph an input
// is one of these, from there on a message.
struct Message {
  int variable;
  std::vector<int> inputs;
  std::vector<int> scope;  // the variable eliminated last comes first
  std::vector<double> cells;
};

struct Buckets {
  std::vector<int> order;  // of elimination
  std::vector<Message> messages;
  std::vector<std::vector<int>> inputs;     // per variable: tables and messages of whose scope it is the first to go
  std::vector<std::vector<int>> made;       // per variable: messages that stand for it once it is gone
  double stored = 0, work = 0, widest = 0;  // cells of all messages; cells visited to fill them; cells of the largest
  bool exact = true;                        // one message per variable
};

// Plans without touching a cost. A bucket whose message would exceed `cap` cells is split into smaller ones that each minimise alone.
Buckets plan_buckets(std::span<const int> sizes, const Scopes& scopes, std::vector<int> order, double cap);

// The largest cap <= table_cells at which all messages together take at most 4 and all work at most 128 times table_cells.
Buckets plan_within(std::span<const int> sizes, const Scopes& scopes, std::vector<int> order, std::size_t table_cells);

// Computes the messages. Returns the bound: exact if the plan is; +inf if nothing is allowed.
double fill(const CostGraph&, Buckets&);

// Reads the optimum of the plan's variables off filled exact buckets into `choice`.
void read_choice(const CostGraph&, const Buckets&, std::vector<int>& choice);

struct SearchResult {
  bool finished;  // nothing is cheaper than the choice (by more than slack)
  double cost;    // of the plan's variables, their tables only
  long steps;     // variables opened
};

// Depth first through the plan's variables, last eliminated first, cutting off what the messages prove to be no cheaper than the best
// found. `choice` holds a first choice of cost `cost` (+inf: none) and takes the best.
SearchResult search(const CostGraph&, const Buckets&, std::vector<int>& choice, double cost, double slack, long steps);

}  // namespace karez::solve
