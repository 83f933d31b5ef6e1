// Declares the table of op cases. One row covers an op in the tests of sharding equivalence and of finite differences,
// and in the comparison with the independent reference.
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

// A case of an op. `values` describes the contents of the operands, with a letter for each; the last letter applies to
// all further operands.
//   r  reals in (-2, 2), distinct over all operands, none near 0, so that no tie or kink is within a small step; in
//      operands of integers, whole numbers from -9 to 9 without 0
//   p  reals in (0.5, 2), distinct
//   t  whole numbers from -2 to 2: ties and zeros, which test rules of precedence (derivatives do not exist there)
//   i  whole numbers from -1 to index_below
//   j  indices from 0 to index_below - 1
//   n  3, a number of steps
//   z  in operands of bools, false
// Bools are true for p, false for z, and random for every other letter.
struct OpCase {
  std::string op;
  std::vector<TensorType> in;  // floats are f64; as_f32 converts them
  Attrs attrs = {};
  std::string values = "r";
  std::int64_t index_below = 0;
};
std::string print(const OpCase& c);

std::vector<OpCase> op_cases();

// Returns the reason why no kernel computes an op of the table, or "".
std::string why_not_computed(const std::string& op);

// Returns the case with f32 in place of f64, also in attributes.
OpCase as_f32(OpCase c);

// Makes a graph of one node over inputs called "0", "1", ... The node is the last one of the graph.
Graph graph_of(const OpCase& c, const OpTable& ops);

std::vector<HostArray> random_inputs(const OpCase& c, std::mt19937_64& random);

// Replaces about a third of the reals, chosen at random, with a zero of either sign, an infinity or NaN.
std::vector<HostArray> with_special_values(std::vector<HostArray> inputs, std::mt19937_64& random);

}  // namespace karez::tests
