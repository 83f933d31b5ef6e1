// Elimination: variables are minimised out of a cost graph one after the other, in an order planned from sizes only.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "karez/solve/join.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

struct EliminationStep {
  int variable;
  std::vector<int> inputs;  // tables with the variable in their scope
  int out;                  // the table that replaces them; its scope may be empty
};

struct Elimination {
  CostGraph graph;  // the given tables, followed by the result of each step
  std::vector<EliminationStep> steps;
  std::vector<int> made_by_step;  // by cost array: the first step that makes it, -1 if given
  std::vector<char> alive;        // by table
  std::vector<int> remaining;     // variables that are not eliminated, ascending
  double stored = 0, work = 0;    // cells of all distinct cost arrays made; cells visited to fill them
};

// The variable to eliminate next: that with the smallest result, or that which links the fewest new pairs of variables
// (counted by their cells).
enum class EliminationRule { smallest, min_fill };

// Eliminates variables whose result has at most `most_cells` cells, or no more than are stored for the tables that it
// replaces, or at most six times `most_cells` and no more than those tables have with implied classes expanded. Equal
// steps share a cost array. Stops once more than `most_stored` cells are stored.
Elimination plan_elimination(CostGraph graph, EliminationRule rule, double max_cells, double max_stored);

// The plan by either rule that eliminates all variables and visits fewer cells; none if both are too large. The second
// rule is skipped if the first one's plan visits at most `little_work` cells.
std::optional<Elimination> plan_exact(const CostGraph& graph, double max_cells, double little_work = 0);

// Computes the cost arrays.
void fill(Elimination&);

// Calls `use` with the join of a step's inputs over the given states of the variables in its result, by axis.
void with_join(const Elimination&, const EliminationStep&, const std::vector<std::vector<int>>& states,
               const std::function<void(Join&)>& use);

// The sum of the constant and of all results without variables; if no variables remain, this is the minimum.
double constant_of(const Elimination&);

// Costs of a step's variable by state, with the other variables as in `choice`.
void costs_of(const Elimination&, const EliminationStep&, std::span<const int> choice, std::vector<double>& costs);

// Chooses the variables of the steps, given the remaining ones; of equal states the first.
void decode_choice(const Elimination&, std::vector<int>& choice);

}  // namespace karez::solve
