// Predicts, before layouts are chosen, which values the pass `fuse` will remove.
#pragma once

#include <compare>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The accesses to a value in memory that fusion saves.
struct FusedValue {
  int reads = 0;         // operands of calls that read the value
  bool written = false;  // false for windows, and for results of products, which are written while they are computed
  bool called = false;   // a call is saved, too
  bool fuses() const { return reads > 0 || written || called; }
  auto operator<=>(const FusedValue&) const = default;
};
using FusedValues = ById<ValueId, FusedValue>;  // empty if no value fuses
FusedValue fused_value(const FusedValues& values, ValueId value);

// Applies the rules of `fuse` to the calls that the program would have on one device, and returns the values that no
// call reads or writes then. On several devices, such a value is removed if all of its consumers read it in the layout
// in which it is produced, unless a transfer between its producer and its consumers divides their calls into two
// actors, or the strides of a part prevent it. Only likely transfers are known here. Values in the setup are not
// included. Returns no value if the pass `fuse` is off. The result does not depend on the rank or its devices, so that
// all ranks choose equal layouts, nor on `check_nan`, which must not change the bits of results.
FusedValues fused_values(const Graph& graph, const KernelCatalog& catalog, const CompileOptions& options = {});

}  // namespace karez::passes
