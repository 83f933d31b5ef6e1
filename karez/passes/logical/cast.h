// Pass cast: mixed precision, and casts to f32 and back around ops that are not computed in bf16 or f16.
#pragma once

#include <optional>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// With `low_type`, f32 products take their operands in that type, and ops on the results of products stay in the low
// type as far as OpDef::half_policy allows; variables, updates, sums and outputs stay f32. A value of the low type is
// rounded once, when it is stored, and only if a consumer reads the rounded value; a single consumer that computes in
// f32 reads the unrounded sum of a product. Each value is cast once. An f64 product is an error.
//
// With or without `low_type`, ops on bf16 and f16 values that the program itself declares are computed in f32 between
// casts, except ops that move elements and, if the catalog has a fast kernel, bf16 products. The result of a product is
// f32, and the cast after the product rounds, so that Partial sums are f32.
Graph cast_halves(Graph graph, const OpTable& ops, const KernelCatalog& catalog, std::optional<DType> low_type);

}  // namespace karez::passes
