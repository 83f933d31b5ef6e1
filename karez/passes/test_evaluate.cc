// Implements ops with short, direct code.
#include "karez/passes/test_evaluate.h"

#include "karez/base/row_program.h"

namespace karez::passes::testing {

double at(const Array& a, const std::vector<std::int64_t>& index) {
  return a.data[static_cast<std::size_t>(offset_of(index, row_major(a.shape)))];
}

double max_or_nan(double a, double b) { return std::isnan(a) || a > b ? a : b; }

Array run_pointwise(const std::string& text, const std::vector<Array>& in) {
  static std::map<std::string, ExprProgram> parsed;
  auto [entry, inserted] = parsed.try_emplace(text);
  if (inserted) entry->second = flatten(parse_expr(text));
  const ExprProgram& program = entry->second;
  Array out{in[0].shape, {}};
  for (std::size_t i = 0; i < in[0].data.size(); ++i) {
    std::vector<double> x;
    for (const Array& a : in) x.push_back(a.data[i]);
    out.data.push_back(evaluate<double>(program, x));
  }
  return out;
}

std::vector<Array> run_row_program(const std::string& text, const std::vector<Array>& in,
                                   const std::vector<Shape>& shapes) {
  const RowProgram program = parse_row_program(text);
  Shape full{1, 1};
  for (const Array& x : in)
    for (std::size_t d = 0; d < 2; ++d) full[d] = std::max(full[d], x.shape[d]);
  std::vector<Array> values;
  for (const Array& x : in)
    values.push_back(make_array(full, [&](const std::vector<std::int64_t>& i) {
      return at(x, {x.shape[0] == 1 ? 0 : i[0], x.shape[1] == 1 ? 0 : i[1]});
    }));
  for (const auto& [kind, expr] : program.statements) {
    if (kind == RowStatementKind::each) {
      values.push_back(run_pointwise(print(expr), values));
      continue;
    }
    const Array& x = values[static_cast<std::size_t>(expr->variable)];
    values.push_back(make_array(full, [&](const std::vector<std::int64_t>& i) {
      if (kind == RowStatementKind::one_hot) return at(x, i) == static_cast<double>(i[1]) ? 1.0 : 0.0;
      double out = at(x, {i[0], 0});
      for (std::int64_t c = 1; c < full[1]; ++c) {
        const double next = at(x, {i[0], c});
        out = kind == RowStatementKind::sum   ? out + next
              : kind == RowStatementKind::max ? max_or_nan(out, next)
                                              : std::min(out, next);
      }
      return out;
    }));
  }
  std::vector<Array> out;
  for (std::size_t r = 0; r < shapes.size(); ++r)
    out.push_back(make_array(shapes[r], [&](const std::vector<std::int64_t>& i) {
      return at(values[static_cast<std::size_t>(program.results[r])], i);
    }));
  return out;
}

std::vector<Array> run_max_pool(const Array& x, const Shape& out, const Attrs& attrs) {
  const Ints &kernel = attrs.ints("kernel"), &stride = attrs.ints("stride"), &padding = attrs.ints("padding");
  Array index{out, {}};
  Array value = make_array(out, [&](const std::vector<std::int64_t>& o) {
    double maximum = -INFINITY;
    std::int64_t best_index = -1;
    for (std::int64_t r = 0; r < kernel[0]; ++r)
      for (std::int64_t s = 0; s < kernel[1]; ++s) {
        std::int64_t h = o[2] * stride[0] - padding[0] + r, w = o[3] * stride[1] - padding[1] + s;
        if (h < 0 || w < 0 || h >= x.shape[2] || w >= x.shape[3]) continue;
        double v = at(x, {o[0], o[1], h, w});
        if (best_index < 0 || v > maximum || (std::isnan(v) && !std::isnan(maximum)))
          maximum = v, best_index = r * kernel[1] + s;
      }
    index.data.push_back(static_cast<double>(best_index));
    return maximum;
  });
  return {value, index};
}

Array run_max_pool_grad(const Array& dy, const Array& index, const Attrs& attrs) {
  const Ints &kernel = attrs.ints("kernel"), &stride = attrs.ints("stride"), &padding = attrs.ints("padding");
  Array dx = make_array(attrs.ints("shape"), [](const auto&) { return 0.0; });
  std::size_t i = 0;
  for_each_index(dy.shape, [&](const std::vector<std::int64_t>& o) {
    auto k = static_cast<std::int64_t>(index.data[i]);
    std::int64_t h = o[2] * stride[0] - padding[0] + k / kernel[1], w = o[3] * stride[1] - padding[1] + k % kernel[1];
    dx.data[static_cast<std::size_t>(offset_of({o[0], o[1], h, w}, row_major(dx.shape)))] += dy.data[i++];
  });
  return dx;
}

Array run_pad(const Array& x, const Shape& shape, const Attrs& attrs) {
  return make_array(shape, [&](std::vector<std::int64_t> o) {
    for (std::size_t d = 0; d < o.size(); ++d) {
      o[d] -= attrs.ints("low")[d];
      if (o[d] < 0 || o[d] >= x.shape[d]) return attrs.real("value");
    }
    return at(x, o);
  });
}

Array run_matmul(const Array& a, const Array& b, const Shape& shape, const Attrs& attrs) {
  using Index = std::vector<std::int64_t>;
  bool ta = attrs.flag("transpose_a", false), tb = attrs.flag("transpose_b", false);
  std::int64_t inner = ta ? a.shape[0] : a.shape[1];
  return make_array(shape, [&](const Index& o) {
    double total = 0;
    for (std::int64_t k = 0; k < inner; ++k)
      total += at(a, ta ? Index{k, o[0]} : Index{o[0], k}) * at(b, tb ? Index{o[1], k} : Index{k, o[1]});
    return total;
  });
}

Array concat_arrays(const std::vector<Array>& in, const Shape& shape, const Attrs& attrs) {
  const auto axis = static_cast<std::size_t>(attrs.integer("axis"));
  return make_array(shape, [&](std::vector<std::int64_t> o) {
    std::size_t part = 0;
    while (o[axis] >= in[part].shape[axis]) o[axis] -= in[part++].shape[axis];
    return at(in[part], o);
  });
}

std::vector<Array> run_node(const NodeView& node, const std::vector<Array>& in) {
  const std::string& op = node.node().op->name;
  const Attrs& attrs = node.attrs();
  const Shape& shape = node.out_type(0).shape;
  using Index = std::vector<std::int64_t>;
  if (!node.node().op->expr.empty()) return {run_pointwise(node.node().op->expr, in)};
  if (op == "pointwise") return {run_pointwise(attrs.text("expr"), in)};
  if (op == "cast" || op == "box" || op == "copy") return {in[0]};
  if (op == "reshape") return {{shape, in[0].data}};
  if (op == "one_hot")
    return {make_array(shape, [&](Index o) {
      const auto column = static_cast<double>(o.back());
      o.pop_back();
      return at(in[0], o) == column ? 1.0 : 0.0;
    })};
  if (op == "concat") return {concat_arrays(in, shape, attrs)};
  if (op == "stop_gradient") return {in[0]};
  if (op == "constant" && attrs.has("value"))
    return {make_array(shape, [&](const Index&) { return attrs.real("value"); })};
  if (op == "constant") {
    Array out{shape, {}};
    const std::string& hex = attrs.text("data");
    for (std::size_t i = 0; i < hex.size(); i += 16) {
      std::uint64_t bits = 0;
      for (std::size_t byte = 0; byte < 8; ++byte)
        bits |= std::stoull(hex.substr(i + 2 * byte, 2), nullptr, 16) << (8 * byte);
      double number;
      std::memcpy(&number, &bits, 8);
      out.data.push_back(number);
    }
    return {out};
  }
  if (op == "broadcast")
    return {make_array(shape, [&](const Index& o) {
      Index i;
      for (std::int64_t d : attrs.ints("dims")) i.push_back(o[static_cast<std::size_t>(d)]);
      return at(in[0], i);
    })};
  if (op == "transpose")
    return {make_array(shape, [&](const Index& o) {
      Index i(o.size());
      for (std::size_t d = 0; d < o.size(); ++d) i[static_cast<std::size_t>(attrs.ints("perm")[d])] = o[d];
      return at(in[0], i);
    })};
  if (op == "slice")
    return {make_array(shape, [&](Index o) {
      for (std::size_t d = 0; d < o.size(); ++d) o[d] += attrs.ints("begin")[d];
      return at(in[0], o);
    })};
  if (op == "pad") return {run_pad(in[0], shape, attrs)};
  if (op == "reduce_sum")
    return {run_reduction(in[0], shape, attrs.ints("axes"), 0, [](double a, double b) { return a + b; })};
  if (op == "reduce_max") return {run_reduction(in[0], shape, attrs.ints("axes"), -INFINITY, max_or_nan)};
  if (op == "matmul") return {run_matmul(in[0], in[1], shape, attrs)};
  if (op == "max_pool") return run_max_pool(in[0], shape, attrs);
  if (op == "max_pool_grad") return {run_max_pool_grad(in[0], in[1], attrs)};
  if (op == "sgd") {
    double momentum = attrs.real("momentum"), lr = in[3].data[0];
    Array w = in[0], m = in[1];
    for (std::size_t i = 0; i < w.data.size(); ++i)
      m.data[i] = momentum * m.data[i] + in[2].data[i], w.data[i] -= lr * m.data[i];
    return {w, m};
  }
  if (op == "assign") return {in[1]};
  fail("the test's evaluator does not support ", op);
}

Array random_array(const std::string& name, const Shape& shape) {
  std::mt19937_64 random(std::hash<std::string>()(name));
  return make_array(shape, [&](const auto&) { return std::uniform_real_distribution<double>(-1, 1)(random); });
}

std::map<std::string, Array> evaluate_graph(const Graph& graph) { return evaluate_graph(graph, random_array); }

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b)); }

double max_relative_difference(const std::map<std::string, Array>& a, const std::map<std::string, Array>& b) {
  require(a.size() == b.size(), "the numbers of results differ: ", a.size(), " and ", b.size());
  double maximum = 0;
  for (const auto& [name, x] : a) {
    const Array& y = b.at(name);
    require(x.shape == y.shape, "the shapes of ", name, " differ");
    for (std::size_t i = 0; i < x.data.size(); ++i)
      maximum = std::max(maximum,
                         std::abs(x.data[i] - y.data[i]) / std::max({1.0, std::abs(x.data[i]), std::abs(y.data[i])}));
  }
  return maximum;
}

Array run_concat(const std::vector<Array>& in, const std::vector<std::int64_t>& shape) {
  require(shape.size() == 1, "the test's interpreter concatenates only rank-1 arrays");
  Array out{shape, {}};
  for (const Array& list : in) out.data.insert(out.data.end(), list.data.begin(), list.data.end());
  return out;
}

int count_op(const Graph& graph, std::string_view op) {
  int count = 0;
  for (const Node& node : graph.nodes) count += node.op->name == op;
  return count;
}

}  // namespace karez::passes::testing
