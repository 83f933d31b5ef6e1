// Elimination: variables minimised out of a cost graph one after the other, planned without touching a cost.
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
  std::vector<int> inputs;  // tables that speak of it
  int out;                  // what they become; its scope may be empty
};

struct Elimination {
  CostGraph graph;  // its tables are those given, then what each step makes
  std::vector<EliminationStep> steps;
  std::vector<int> made_by_step;  // by sheet: the first step that makes it, -1: given
  std::vector<char> alive;        // by table
  std::vector<int> remaining;     // variables that stay, ascending
  double stored = 0, work = 0;    // cells of all distinct sheets made; cells visited to fill them
};

// Which variable goes next: that of the smallest result, or that which links fewest pairs (counted by their cells).
enum class EliminationRule { smallest, min_fill };

// Variables go whose result has at most `most_cells` cells, or no more than what is stored of what it replaces; or at
// most six times as many, and no more than what it replaces would have with all cells written out. Steps alike share a
// sheet. Stops as soon as what is stored would exceed `most_stored`.
Elimination plan_elimination(CostGraph graph, EliminationRule rule, double most_cells, double most_stored);

// The plan, by either rule, that leaves no variable and visits fewer cells; nothing where both are too large. The
// second rule is not asked where the first one's plan visits no more than `little_work` cells.
std::optional<Elimination> plan_exact(const CostGraph& graph, double most_cells, double little_work = 0);

// Computes the sheets.
void fill(Elimination&);

// The join of a step's inputs over these states of the variables in its result, by axis.
void with_join(const Elimination&, const EliminationStep&, const std::vector<std::vector<int>>& states,
               const std::function<void(Join&)>& use);

// Sum of the constant and of what the steps made that has no variable; of a plan without variables left, the minimum.
double constant_of(const Elimination&);

// Costs of the variable of a step by its states, the others as chosen.
void costs_of(const Elimination&, const EliminationStep&, std::span<const int> choice, std::vector<double>& costs);

// Chooses the variables of the steps, given those that are left; of equal states the first.
void decode_choice(const Elimination&, std::vector<int>& choice);

}  // namespace karez::solve
