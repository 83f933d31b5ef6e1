// scan: runs a body once for each row of one or more sequences, for example in recurrent layers.
#pragma once

#include <functional>
#include <vector>

#include "karez/api/functions.h"

namespace karez {

// The result of one trip (the next carries and the rows to stack) or of a scan (the last carries and the stacked rows).
struct Scanned {
  std::vector<Tensor> carry, ys = {};
};
using ScanBody = std::function<Scanned(const std::vector<Tensor>& carry, const std::vector<Tensor>& rows)>;

// The number and order of a scan's trips.
struct ScanOptions {
  bool reverse = false;      // from the last row to the first; stacks keep the order of rows
  std::int64_t length = -1;  // number of trips if there are no sequences
};

// Starts with carry = init and computes (carry, ys[t]) = body(carry, xs[t]) for each row t of the sequences xs [trips,
// ...]. The number of trips is fixed when the program is traced. The body is traced once. It may read values of the
// enclosing program, but must not update variables. Carries keep their types. Each trip draws new random numbers.
// Gradients flow to init, xs and values that the body reads. The plan contains the body once for each trip.
Scanned scan(const ScanBody& body, const std::vector<Term>& init, const std::vector<Term>& xs, ScanOptions options = {},
             SourceLine where = SourceLine::current());

}  // namespace karez
