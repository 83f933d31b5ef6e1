// Small programs and cost tables by chance, for tests of the layout search.
#pragma once

#include <cstdint>
#include <random>

#include "karez/passes/namespace.h"
#include "karez/passes/test_programs.h"

namespace karez::passes::testing {

using Random = std::mt19937_64;
inline std::uint64_t pick(Random& random, std::uint64_t count) { return random() % count; }

// Sources, then ops on whatever values fit; sometimes a parameter is updated, a layout is fixed, a second value is
// wanted outside. With `picks` rows of tables are gathered, with `constants` some sources are constants, at least the
// first.
Graph random_graph(Random& random, const Mesh& mesh, std::size_t nodes, bool picks = false, bool constants = false);
CostTable random_costs(Random& random);

}  // namespace karez::passes::testing
