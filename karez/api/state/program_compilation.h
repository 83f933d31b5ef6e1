// Compiles a traced program with the options of a world and a function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "karez/api/function_options.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/trace.h"
#include "karez/passes/compilation.h"

namespace karez {

// Returns the data type of FunctionOptions::amp; throws for an unknown name.
std::optional<DType> amp_of(const FunctionOptions& options);
// If this processor has no bf16 products, warns once per process that amp bf16 multiplies in f32.
void note_widened_amp(const WorldState& world, const FunctionOptions& options);

// Sets up a compilation. `batch` is the number of rows of the batch, for micro-batches; 0 means the rows of the first
// input that has dimensions. `remat` lists globs of modules to recompute for gradients.
Compilation make_compilation(WorldState& world, Graph graph, const FunctionOptions& options, std::int64_t batch = 0,
                             std::vector<std::string> remat = {});

// An output that is the gradient of a variable, by index.
struct GradientOutput {
  std::size_t output = 0, variable = 0;
  bool operator==(const GradientOutput&) const = default;
};
// Returns these outputs of a trace, without those whose layout the user fixed.
std::vector<GradientOutput> gradient_outputs(const Trace& trace);

// Lets the outputs be on the meshes and in the layouts of their variables. If a variable has no layout yet, the planner
// chooses it first, for a program that uses the gradient where the variable is stored.
void fix_gradient_layouts(WorldState& world, const std::vector<GradientOutput>& outputs, Compilation& c);

// Compiles the program. A rank without a device of the program compiles it as the program's first rank does, so that
// both make the same decisions, and returns an empty plan.
Compilation compile_program(WorldState& world, Compilation c);

}  // namespace karez
