// Programs for the tests of canonicalise, with an evaluator for folding.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "karez/passes/logical/canonicalise.h"
#include "karez/passes/namespace.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes::testing {

inline const TensorType vector_type{DType::f64, {4}};

// Evaluates pointwise calls and sums of f64 values, which is sufficient for folding in these tests.
inline std::vector<HostBytes> evaluate_call(const CallSpec& call, const std::vector<HostBytes>& in) {
  if (call.out[0].dtype != DType::f64) fail("the test evaluates only f64, not ", print(call));
  if (call.op == "reduce_sum") {
    Array x{call.in[0].shape, std::vector<double>(in[0].size() / 8)};
    std::memcpy(x.data.data(), in[0].data(), in[0].size());
    Array y = run_reduction(x, call.out[0].shape, call.attrs.ints("axes"), 0, [](double a, double b) { return a + b; });
    HostBytes out(y.data.size() * 8);
    std::memcpy(out.data(), y.data.data(), out.size());
    return {out};
  }
  if (call.op != "pointwise") fail("the test does not evaluate ", print(call));
  ExprProgram program = flatten(parse_expr(call.attrs.text("expr")));
  HostBytes out(static_cast<std::size_t>(call.out[0].count()) * 8);
  for (std::size_t i = 0; i < out.size(); i += 8) {
    std::vector<double> x(in.size());
    for (std::size_t k = 0; k < in.size(); ++k) std::memcpy(&x[k], &in[k][i], 8);
    double y = evaluate<double>(program, x);
    std::memcpy(&out[i], &y, 8);
  }
  return {out};
}

struct CanonicaliseProgram {
  Graph graph;
  Builder b{graph, table()};
  RuleCounts rule_counts;
  ValueId input(const std::string& name, const TensorType& type = vector_type) { return build::input(b, name, type); }
  void output(ValueId value, const std::string& name = "y") { graph.outputs.push_back({name, value}); }
  Graph canonical() {
    verify(graph);
    CanonicalGraph result = canonicalise(graph, {&table(), evaluate_call});
    verify(result.graph);
    rule_counts = std::move(result.rule_counts);
    return std::move(result.graph);
  }
};

}  // namespace karez::passes::testing
