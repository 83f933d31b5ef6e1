// vmap: a function of one element, computed for all elements of a batch at once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "karez/api/functions.h"
#include "karez/ops/vmap.h"

namespace karez {

using VmapBody = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

struct VmapOptions {
  ops::Randomness randomness = ops::Randomness::error;
  std::int64_t chunk_size = 0;  // the number of elements that are computed at once; 0 means all
};

// The results for all elements, in dimension 0. A result that does not depend on an element has no such dimension.
struct MappedResults {
  std::vector<Tensor> values;
  std::vector<bool> is_mapped;
};

// An operand, and its dimension that lists the elements; a negative one counts from the end.
struct MappedOperand {
  Term value;
  std::int64_t dim = 0;
};

// Computes body(elements of xs) for all elements. The body is traced once, with tensors that lack the dimension of the
// batch. It may read other values of the enclosing program, but must not update variables. An op of the body that has
// no rule for a batch is an error with its name and the user's line (karez/ops/vmap_rules.h).
MappedResults vmap(const VmapBody& body, const std::vector<MappedOperand>& xs, VmapOptions options = {},
                   SourceLine where = SourceLine::current());

// Whether a program, or the body of a scan or vmap outside of compiled functions, is being traced.
bool in_trace();

}  // namespace karez
