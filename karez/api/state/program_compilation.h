// A traced program on its way through the compiler, as a world and a function's options want it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/state/world_state.h"
#include "karez/passes/compilation.h"

namespace karez {

// Of FunctionOptions::amp; an unknown word is an error.
std::optional<DType> amp_of(const FunctionOptions& options);
// Says, once a process, that amp bf16 multiplies in f32, where this processor has no products of bf16.
void note_widened_amp(const WorldState& world, const FunctionOptions& options);

// `batch` is that of micro-batches (0: of the first input that has dimensions), `remat` the globs of modules that
// gradients compute again.
Compilation make_compilation(WorldState& world, Graph graph, const FunctionOptions& options, std::int64_t batch = 0,
                             std::vector<std::string> remat = {});

// The same, compiled. A rank without a device of the program's decides what all decide, and has no plan of its own.
Compilation compile_program(WorldState& world, Compilation c);

}  // namespace karez
