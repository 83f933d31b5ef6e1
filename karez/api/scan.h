// scan: a body once for each row of its sequences, as recurrent layers have it.
#pragma once

#include <functional>
#include <vector>

#include "karez/api/functions.h"

namespace karez {

// Of one trip: the next carries, and rows to stack. Of a whole scan: the last carries, and the stacks.
struct Scanned {
  std::vector<Tensor> carry, ys = {};
};
using ScanBody = std::function<Scanned(const std::vector<Tensor>& carry, const std::vector<Tensor>& rows)>;

// How often and in which order a scan runs.
struct ScanOptions {
  bool reverse = false;      // from the last row to the first; stacks keep their order
  std::int64_t length = -1;  // trips, where there are no sequences
};

// carry = init; for each row t of the sequences xs [trips, ...]: (carry, ys[t]) = body(carry, xs[t]). The number of
// trips is fixed when the program is traced; the body is traced once and may read all that the program around it may,
// but updates no variable. Carries keep their types. What is random is so in each trip anew. Gradients flow to init, xs
// and what the body reads; the plan holds the body as often as there are trips.
Scanned scan(const ScanBody& body, const std::vector<Term>& init, const std::vector<Term>& xs, ScanOptions options = {},
             SourceLine where = SourceLine::current());

}  // namespace karez
