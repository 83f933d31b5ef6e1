// A direct evaluator of small graphs in double precision, for tests of whether a pass preserves a graph's meaning.
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

template <class F> Array filled(const Shape& shape, F&& element) {
  Array out{shape, {}};
  for_each_index(shape, [&](const std::vector<std::int64_t>& index) { out.data.push_back(element(index)); });
  return out;
}
double at(const Array& a, const std::vector<std::int64_t>& index);

// The maximum; NaN if either is NaN, as in max, min and pooling.
double larger(double a, double b);

Array pointwise_of(const std::string& text, const std::vector<Array>& in);

// Each window's first maximum and its position in the window.
std::vector<Array> max_pool_of(const Array& x, const Shape& out, const Attrs& attrs);
Array max_pool_grad_of(const Array& dy, const Array& place, const Attrs& attrs);

template <class F> Array reduced(const Array& x, const Shape& shape, const Ints& axes, double identity, F&& join) {
  Array out = filled(shape, [&](const auto&) { return identity; });
  std::size_t n = 0;
  for_each_index(x.shape, [&](const std::vector<std::int64_t>& i) {
    std::vector<std::int64_t> o;
    for (std::size_t d = 0; d < i.size(); ++d)
      if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) == axes.end()) o.push_back(i[d]);
    double& into = out.data[static_cast<std::size_t>(offset_of(o, row_major(shape)))];
    into = join(into, x.data[n++]);
  });
  return out;
}

Array padded(const Array& x, const Shape& shape, const Attrs& attrs);

Array product(const Array& a, const Array& b, const Shape& shape, const Attrs& attrs);

std::vector<Array> run_node(const NodeView& node, const std::vector<Array>& in);

// The random value of an input or variable, seeded by its name, so that equal names have equal values in all graphs.
Array drawn(const std::string& name, const Shape& shape);

// `fill(name, shape)` returns the values of inputs and variables.
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
template <class Fill> std::map<std::string, Array> meaning_of(const Graph& graph, Fill&& fill) {
  auto values = run_graph(graph, fill);
  std::map<std::string, Array> out;
  for (const Output& output : graph.outputs) out["output " + output.name] = values[output.value];
  for (const Variable& variable : graph.variables)
    if (variable.updated.valid()) out["variable " + variable.name] = values[variable.updated];
  return out;
}

std::map<std::string, Array> meaning_of(const Graph& graph);

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

// The largest elementwise |a - b| / max(1, |a|, |b|).
double difference(const std::map<std::string, Array>& a, const std::map<std::string, Array>& b);

// The concatenation of rank-1 arrays.
Array joined(const std::vector<Array>& in, const std::vector<std::int64_t>& shape);

int count_op(const Graph& graph, std::string_view op);

}  // namespace karez::passes::testing
