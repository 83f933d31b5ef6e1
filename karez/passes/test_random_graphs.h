// Small random programs and cost tables, for tests of the layout search.
#pragma once

#include <cstdint>
#include <random>

#include "karez/passes/namespace.h"
#include "karez/passes/test_programs.h"

namespace karez::passes::testing {

using Random = std::mt19937_64;
inline std::uint64_t pick(Random& random, std::uint64_t count) { return random() % count; }

// Builds a program of a few sources, followed by ops on values of suitable types. Some programs update a parameter, fix
// a layout, or have a second output. With `picks`, some ops gather rows of tables. With `constants`, the first source
// and some of the others are constants.
Graph random_graph(Random& random, const Mesh& mesh, std::size_t nodes, bool picks = false, bool constants = false);
CostTable random_costs(Random& random);

}  // namespace karez::passes::testing
