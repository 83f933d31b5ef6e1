// Elimination: removes the variables of a cost graph one after another by minimising over each, in an order that
// depends only on the sizes of tables.
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
  std::vector<int> filled_by;   // by cost array: the first step that computes it, -1 for arrays of given tables
  std::vector<char> alive;      // by table: 0 if a step has replaced it
  std::vector<int> remaining;   // variables that are not eliminated, ascending
  double stored = 0, work = 0;  // cells of all distinct computed cost arrays; cells visited to fill them
};

// The rule that selects the variable to eliminate next: the one with the smallest result, or the one that links the
// fewest new pairs of variables (counted by their cells).
enum class EliminationRule { smallest, min_fill };

// Eliminates a variable if the number of cells of its result satisfies one of these conditions:
//   - at most `max_cells`
//   - at most the number of cells stored for the replaced tables
//   - at most six times `max_cells`, and at most the cells of the replaced tables with implied classes expanded
// Equal steps share a cost array. Stops once more than `max_stored` cells are stored.
Elimination plan_elimination(CostGraph graph, EliminationRule rule, double max_cells, double max_stored);

// Plans by both rules and returns the plan that eliminates all variables and visits fewer cells. Returns nullopt if
// both plans are too large. The second rule is skipped if the plan of the first one visits at most `little_work` cells.
std::optional<Elimination> plan_exact(const CostGraph& graph, double max_cells, double little_work = 0);

// Computes the cost arrays of all steps.
void fill(Elimination&);

// Calls `use` with the join of a step's inputs, restricted to the given states of the variables in the step's result;
// `states` has a list for each axis of the result.
void with_join(const Elimination&, const EliminationStep&, const std::vector<std::vector<int>>& states,
               const std::function<void(Join&)>& use);

// Returns the sum of the constant and of all results without variables. If no variables remain, this is the minimum.
double constant_of(const Elimination&);

// Computes the costs of a step's variable by state, with the other variables as in `choice`.
void costs_of(const Elimination&, const EliminationStep&, std::span<const int> choice, std::vector<double>& costs);

// Chooses the states of the eliminated variables, given those of the remaining ones. Among equal states, the first is
// chosen.
void decode_choice(const Elimination&, std::vector<int>& choice);

}  // namespace karez::solve
