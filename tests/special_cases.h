// Defines special values (NaN, infinities, zeros, subnormals, the largest number, large arguments), and operands with
// them for every op. The results for these operands, and for the random ones of op_cases.h, are compared with the
// independent reference.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/namespace.h"
#include "tests/op_cases.h"

namespace karez::tests {

struct SpecialCase {
  OpCase op;
  std::vector<HostArray> in;
};

template <class T> std::vector<T> special_values() {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (L::is_integer) {
    return {0, 1, -1, 2, -3, 10, L::max(), L::min(), L::max() - 1, L::min() + 1};
  } else {
    std::vector<T> out{L::quiet_NaN(), L::infinity(), -L::infinity(), 0, -T{0}};
    for (double x : {static_cast<double>(L::denorm_min()),
                     3e3 * static_cast<double>(L::denorm_min()),
                     static_cast<double>(L::min()),
                     1e-6,
                     0.5,
                     0.9,
                     1.0,
                     2.0,
                     3.7,
                     6.5,
                     10.0,
                     12.5,
                     20.0,
                     60.0,
                     87.9,
                     88.0,
                     100.0,
                     700.0,
                     740.0,
                     1e3,
                     1e5,
                     static_cast<double>(L::max())})
      out.push_back(static_cast<T>(x)), out.push_back(static_cast<T>(-x));
    return out;
  }
}

template <class T> HostArray list_of(const std::vector<T>& values) {
  HostArray out(TensorType{dtype_of<T>(), {static_cast<std::int64_t>(values.size())}});
  for (std::size_t i = 0; i < values.size(); ++i) out.data<T>()[i] = values[i];
  return out;
}

// Makes a case for a row of the pointwise table with every special value, or every pair of special values. The operands
// of a gradient row come from the forward row: x and y are special values, r is the forward result for them, and dy is
// an ordinary number.
template <class T> SpecialCase special_pointwise(const Pointwise& row) {
  const std::vector<T> values = special_values<T>();
  const Pointwise* forward = &row;  // the row whose gradient `row` is, or `row` itself
  std::vector<std::string> names{"x", "y", "z"};
  for (const Pointwise& other : pointwise_rows())
    for (const PointwiseGradient& grad : other.grads)
      if (grad.op == row.name && row.grads.empty() && row.no_grad.empty()) forward = &other, names = grad.operands;
  auto truth = bool_operands(parse_expr(forward->expr));
  for (int k = variable_count(parse_expr(forward->expr)); k < 3; ++k)
    truth[static_cast<std::size_t>(k)] = forward->dtypes == OperandDTypes::bools;
  const ExprProgram program = flatten(parse_expr(forward->expr));
  const bool integer_trap = std::is_integral_v<T> && forward->name == "div";

  SpecialCase out{{row.name, {}}, {}};
  std::vector<std::vector<T>> columns(static_cast<std::size_t>(row.operands));
  std::vector<std::vector<bool>> truths(columns.size());
  const std::size_t n = values.size(), second = forward->operands > 1 ? n : 1;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < second; ++j) {
      std::vector<T> x{values[i], values[j], values[(i + 2 * j) % n]};
      if (integer_trap && x[1] == 0) continue;
      for (std::size_t k = 0; k < x.size(); ++k)
        if (truth[k]) x[k] = static_cast<T>((i + j) % 2);
      if (forward->dtypes == OperandDTypes::bools) x = {static_cast<T>(i % 2), static_cast<T>(j % 2), 0};
      const T r = evaluate<T>(program, std::span<const T>(x).first(static_cast<std::size_t>(program.variables)));
      const T dy = static_cast<T>((i + j) % 3 == 0 ? 1.0 : (i + j) % 3 == 1 ? -3.0 : 0.25);
      for (std::size_t k = 0; k < columns.size(); ++k) {
        const std::string& name = names[k];
        columns[k].push_back(name == "dy" ? dy : name == "r" ? r : x[static_cast<std::size_t>(name[0] - 'x')]);
      }
    }
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const std::string& name = names[k];
    const bool condition = name != "dy" && name != "r" && truth[static_cast<std::size_t>(name[0] - 'x')];
    if (condition) {
      HostArray bools(TensorType{DType::b8, {static_cast<std::int64_t>(columns[k].size())}});
      for (std::size_t e = 0; e < columns[k].size(); ++e) bools.data<bool>()[e] = columns[k][e] != 0;
      out.in.push_back(bools);
    } else {
      out.in.push_back(list_of(columns[k]));
    }
    out.op.in.push_back(out.in.back().type());
  }
  return out;
}

// Makes cases for an op that is not pointwise: random operands with one special element in one float operand, for each
// special value and each operand.
inline std::vector<SpecialCase> special_others(const OpCase& op, std::mt19937_64& random) {
  std::vector<SpecialCase> out;
  const bool adam = op.op.starts_with("adam"), sgd = op.op.starts_with("sgd");
  const std::size_t operands = adam ? 4 : sgd ? 3 : op.in.size();
  for (std::size_t k = 0; k < operands; ++k) {
    if (!is_float(op.in[k].dtype) || op.in[k].count() == 0) continue;
    with_type(op.in[k].dtype, [&]<class T>() {
      if constexpr (std::is_floating_point_v<T>) {
        using L = std::numeric_limits<T>;
        for (T value : {L::quiet_NaN(), L::infinity(), -L::infinity(), -T{0}, L::denorm_min(), L::max(), L::lowest()}) {
          SpecialCase c{op, random_inputs(op, random)};
          auto data = c.in[k].template data<T>();
          data[random() % data.size()] = value;
          if (adam && k == 2 && value < 0) continue;  // a mean of squares is not negative
          out.push_back(std::move(c));
        }
      }
    });
  }
  return out;
}

inline std::vector<SpecialCase> special_cases(std::mt19937_64& random) {
  std::vector<SpecialCase> out;
  for (const Pointwise& row : pointwise_rows()) {
    if (row.dtypes == OperandDTypes::bools) continue;  // bools have no special values
    out.push_back(special_pointwise<float>(row));
    out.push_back(special_pointwise<double>(row));
    if (row.dtypes != OperandDTypes::numbers && row.dtypes != OperandDTypes::any) continue;
    out.push_back(special_pointwise<std::int32_t>(row));
    out.push_back(special_pointwise<std::int64_t>(row));
  }
  for (const char* to : {"f32", "f64", "i32", "i64", "bool"}) {
    const HostArray single = list_of(special_values<float>()), twice = list_of(special_values<double>());
    const HostArray word = list_of(special_values<std::int32_t>()), wide = list_of(special_values<std::int64_t>());
    for (const HostArray& x : {single, twice, word, wide})
      out.push_back({{"cast", {x.type()}, {{"to", std::string(to)}}}, {x}});
  }
  for (const OpCase& c : op_cases()) {
    if (pointwise_row(c.op) != nullptr || c.op == "cast" || c.op == "pointwise") continue;
    for (const OpCase& typed : {c, as_f32(c)})
      for (SpecialCase& s : special_others(typed, random)) out.push_back(std::move(s));
  }
  return out;
}

// Makes cases of matmul and conv2d that are fused with ReLU, with and without a bias as the third operand. No graph has
// such nodes; the fuse pass makes the calls.
inline std::vector<SpecialCase> fused_cases(std::mt19937_64& random) {
  std::vector<SpecialCase> out;
  const Attrs unit{{"stride", Ints{1, 1}}, {"padding", Ints{0, 0}}, {"dilation", Ints{1, 1}}};
  for (const DType f : {DType::f32, DType::f64})
    for (const bool bias : {false, true})
      for (const std::vector<TensorType>& in : {std::vector<TensorType>{{f, {5, 3}}, {f, {3, 20}}, {f, {20}}},
                                                {{f, {2, 1, 5, 5}}, {f, {7, 1, 3, 3}}, {f, {7}}},
                                                {{f, {2, 3, 5, 5}}, {f, {7, 3, 3, 3}}, {f, {7}}}}) {
        const bool conv = in[0].rank() == 4;
        OpCase c{conv ? "conv2d" : "matmul", in, conv ? unit : Attrs()};
        if (!bias) c.in.pop_back();
        c.attrs.set("bias", bias).set("relu", true);
        for (SpecialCase& s : special_others(c, random)) out.push_back(std::move(s));
      }
  return out;
}

}  // namespace karez::tests
