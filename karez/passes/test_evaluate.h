// An evaluator of small graphs in double precision, for tests that a pass preserves what a graph computes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "karez/base/expr.h"
#include "karez/base/text.h"
#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes::testing {

struct Array {
  Shape shape;
  std::vector<double> data;  // row-major
};

template <class F> Array make_array(const Shape& shape, F&& element) {
  Array out{shape, {}};
  for_each_index(shape, [&](const std::vector<std::int64_t>& index) { out.data.push_back(element(index)); });
  return out;
}
double at(const Array& a, const std::vector<std::int64_t>& index);

// Returns the maximum; NaN if either argument is NaN, as the ops max, min and max_pool do.
double max_or_nan(double a, double b);

Array run_pointwise(const std::string& text, const std::vector<Array>& in);

// Returns the first maximum of each window and its position in the window.
std::vector<Array> run_max_pool(const Array& x, const Shape& out, const Attrs& attrs);
Array run_max_pool_grad(const Array& dy, const Array& index, const Attrs& attrs);

template <class F>
Array run_reduction(const Array& x, const Shape& shape, const Ints& axes, double identity, F&& combine) {
  Array out = make_array(shape, [&](const auto&) { return identity; });
  std::size_t n = 0;
  for_each_index(x.shape, [&](const std::vector<std::int64_t>& i) {
    std::vector<std::int64_t> o;
    for (std::size_t d = 0; d < i.size(); ++d)
      if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) == axes.end()) o.push_back(i[d]);
    double& element = out.data[static_cast<std::size_t>(offset_of(o, row_major(shape)))];
    element = combine(element, x.data[n++]);
  });
  return out;
}

// Runs a row program; `shapes` are those of its results.
std::vector<Array> run_row_program(const std::string& text, const std::vector<Array>& in,
                                   const std::vector<Shape>& shapes);

Array run_pad(const Array& x, const Shape& shape, const Attrs& attrs);

Array run_matmul(const Array& a, const Array& b, const Shape& shape, const Attrs& attrs);

Array concat_arrays(const std::vector<Array>& in, const Shape& shape, const Attrs& attrs);

std::vector<Array> run_node(const NodeView& node, const std::vector<Array>& in);

// Draws the value of an input or variable. The name is the seed, so that equal names have equal values in all graphs.
Array random_array(const std::string& name, const Shape& shape);

// Evaluates all values of a graph. `fill(name, shape)` returns the values of inputs and variables.
template <class Fill> ById<ValueId, Array> run_graph(const Graph& graph, Fill&& fill) {
  ById<ValueId, Array> values(graph.values.size());
  for (NodeId n : graph.nodes.ids()) {
    NodeView node{&graph, n};
    const std::string& op = node.node().op->name;
    if (op == "input" || op == "variable") {
      values[node.out(0)] = fill(node.attrs().text("name"), node.out_type(0).shape);
      continue;
    }
    std::vector<Array> in;
    for (ValueId i : node.node().inputs) in.push_back(values[i]);
    auto out = run_node(node, in);
    for (std::size_t o = 0; o < out.size(); ++o) values[node.out(o)] = std::move(out[o]);
  }
  return values;
}

// Evaluates a graph: returns its outputs and the updated values of its variables, by name.
template <class Fill> std::map<std::string, Array> evaluate_graph(const Graph& graph, Fill&& fill) {
  auto values = run_graph(graph, fill);
  std::map<std::string, Array> out;
  for (const Output& output : graph.outputs) out["output " + output.name] = values[output.value];
  for (const Variable& variable : graph.variables)
    if (variable.updated.valid()) out["variable " + variable.name] = values[variable.updated];
  return out;
}

std::map<std::string, Array> evaluate_graph(const Graph& graph);

// Edge cases (signed zero, subnormals, infinities, NaN, overflow of exp) that expose almost correct rewrite rules.
inline const std::vector<double>& special_numbers() {
  static const double inf = std::numeric_limits<double>::infinity(),
                      smallest = std::numeric_limits<double>::denorm_min();
  static const std::vector<double> numbers = {0,   -0.0, 1e-6,  -1e-6,    1,           -1,     88,
                                              -88, 1e3,  -1e3,  smallest, -smallest,   1e-310, -1e-310,
                                              inf, -inf, 1e308, -1e308,   std::nan("")};
  return numbers;
}

bool same_bits(double a, double b);

// Returns the largest elementwise |a - b| / max(1, |a|, |b|).
double max_relative_difference(const std::map<std::string, Array>& a, const std::map<std::string, Array>& b);

// Concatenates rank-1 arrays.
Array run_concat(const std::vector<Array>& in, const std::vector<std::int64_t>& shape);

int count_op(const Graph& graph, std::string_view op);

}  // namespace karez::passes::testing
