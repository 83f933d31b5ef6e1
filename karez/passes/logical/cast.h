// Pass cast: mixed precision, and casts to f32 and back around ops that are not computed in bf16 or f16.
#pragma once

#include <optional>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// "Product" means a matrix product or a convolution here. With `low_type`, f32 products take their operands in that
// type, and ops on the results of products stay in the low type as far as OpDef::half_policy allows. Variables,
// updates, sums and outputs stay f32. A value of the low type is rounded once, when it is stored, and only if a
// consumer reads the rounded value. If the only consumer of a product computes in f32, it reads the unrounded result.
// Each value is cast once. A product of f64 operands is an error.
//
// With or without `low_type`, ops on values that the program itself declares as bf16 or f16 are computed in f32, with
// casts before and after them. The exceptions are ops that only move elements and, if the catalog has a fast kernel,
// bf16 products. The result of a product is f32, so that Partial sums are f32; the cast after the product rounds it.
Graph cast_halves(Graph graph, const OpTable& ops, const KernelCatalog& catalog, std::optional<DType> low_type);

// Returns whether the program needs casts; otherwise cast_halves returns it unchanged.
bool needs_casts(const Graph& graph, std::optional<DType> low_type);

}  // namespace karez::passes
