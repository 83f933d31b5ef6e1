// In which order variables are minimised out so that the tables between them stay small.
#pragma once

#include <span>
#include <vector>

namespace karez::solve {

using Scopes = std::vector<std::vector<int>>;

// Order for the variables given: the better (by cells visited) of min-fill weighted by table size and smallest next table. `sizes` has
// the states of all variables, scopes may name others.
std::vector<int> elimination_order(std::span<const int> sizes, const Scopes& scopes, std::span<const int> variables);

}  // namespace karez::solve
