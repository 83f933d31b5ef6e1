// cast: mixed precision, and casts to f32 and back around what is not computed in halves.
#pragma once

#include <optional>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// With `low`, products of f32 take their operands in that type; what their results go through stays in it as far as
// OpDef::halves says; variables, updates, sums and outputs stay f32. A value of that type is rounded where it is
// stored: once, and only if a reader takes it so; who reads a product alone and in f32 reads it as it was summed. Each
// value is cast once. A product of f64 is an error. With or without it, ops on the program's own bf16 and f16 are
// computed in f32 between casts, but for those that move elements and, where the catalog has a fast kernel, products of
// bf16. A product gives f32, and the cast behind it rounds, so that Partial sums are f32.
Graph cast_halves(Graph graph, const OpTable& ops, const KernelCatalog& catalog, std::optional<DType> low);

}  // namespace karez::passes
