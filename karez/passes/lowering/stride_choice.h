// Chooses the strides with which a call reads its operands: their current strides or, after copies, different strides,
// whichever costs less.
#pragma once

#include <optional>
#include <vector>

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"
#include "karez/plan/catalog.h"

namespace karez::passes {

bool has_zero_stride(const View& view);  // true if several indices refer to the same element
// Returns the seconds of one call of `work` at the rate of the chosen kernel.
double kernel_seconds(const CostTable& costs, const Cost& work, const KernelChoice& choice);
// Returns the work of copying every element of a view once.
Cost copy_work(const View& view);
CallSpec copy_call(const View& from, const View& to);

struct StrideChoice {
  CallSpec call;             // its inputs may have different strides from those of the given call
  std::vector<bool> copied;  // for each input: true if it is copied
  KernelChoice choice;
  double seconds = 0;  // including the copies
};

// Returns nullopt if no kernel supports the call with any of the candidate strides. Outputs keep their strides. A call
// that a kernel supports at the full rate is not changed; among choices of equal cost, the one with the fewest copies
// is taken.
std::optional<StrideChoice> choose_strides(const KernelCatalog& catalog, const CostTable& costs, const CallSpec& call,
                                           const Cost& work);

}  // namespace karez::passes
