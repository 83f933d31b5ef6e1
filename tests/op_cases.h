// The table of op cases: one row covers an op in sharding equivalence, in finite differences and against the
// independent reference.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "karez/base/text.h"
#include "karez/device/host_array.h"
#include "karez/ops/all_ops.h"
#include "karez/ops/build.h"
#include "karez/ops/pointwise.h"
#include "tests/namespace.h"

namespace karez::tests {

// What operands hold, a letter for each; the last stands for all that follow.
//   r  reals in (-2, 2), all distinct over all operands and none near 0: no tie and no kink within a small step
//   p  reals in (0.5, 2), distinct
//   t  whole numbers from -2 to 2: ties and zeros, where rules of precedence show (and derivatives do not exist)
//   i  whole numbers from -1 to index_below
//   j  indices from 0 to index_below - 1
//   n  3, a count of steps
// Bools are random whatever the letter.
struct OpCase {
  std::string op;
  std::vector<TensorType> in;  // floats are f64 here; others make them f32 by as_f32
  Attrs attrs = {};
  std::string values = "r";
  std::int64_t index_below = 0;
};
std::string print(const OpCase& c);

std::vector<OpCase> op_cases();

// Ops of the table that no kernel computes, each with its reason.
std::string why_not_computed(const std::string& op);

// The same case with every f64 (and the attribute that says so) made f32.
OpCase as_f32(OpCase c);

// A graph of one node over inputs called "0", "1", ... The node is the last one.
Graph graph_of(const OpCase& c, const OpTable& ops);

std::vector<HostArray> random_inputs(const OpCase& c, std::mt19937_64& random);

// Every third real becomes a zero of either sign, an infinity or NaN.
std::vector<HostArray> with_special_values(std::vector<HostArray> inputs, std::mt19937_64& random);

}  // namespace karez::tests
