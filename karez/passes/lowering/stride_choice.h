// Which strides a call takes its operands in: as they lie, or after copies, whichever costs less.
#pragma once

#include <optional>
#include <vector>

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"
#include "karez/plan/catalog.h"

namespace karez::passes {

bool has_zero_stride(const View& view);  // whether an element is seen at more than one index
// Seconds of one call of `work` at the rate of the kernel chosen.
double kernel_seconds(const CostTable& costs, const Cost& work, const KernelChoice& choice);
// Work of moving every element of a view once.
Cost copy_work(const View& view);
CallSpec copy_call(const View& from, const View& to);

struct StrideChoice {
  CallSpec call;             // its inputs may lie otherwise than those of the call that was asked about
  std::vector<bool> copied;  // by input
  KernelChoice choice;
  double seconds = 0;  // with the copies
};

// None where no kernel takes the call in any of the ways tried. Outputs stay as they are. A call that a kernel takes at
// the full rate is left as it stands; of equals the one with the fewest copies wins.
std::optional<StrideChoice> choose_strides(const KernelCatalog& catalog, const CostTable& costs, const CallSpec& call,
                                           const Cost& work);

}  // namespace karez::passes
