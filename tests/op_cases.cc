// Lists the test cases of every op.
#include "tests/op_cases.h"

#include <limits>

namespace karez::tests {

std::string print(const OpCase& c) {
  return cat(c.op, "(", join(c.in, ", ", [](const TensorType& type) { return print(type); }), ") ", c.attrs.print());
}

std::vector<OpCase> op_cases() {
  constexpr auto f = DType::f64;
  constexpr auto i = DType::i32;
  constexpr auto l = DType::i64;
  constexpr auto b = DType::b8;
  const Attr one(std::int64_t{1}), zero(std::int64_t{0});
  const std::string f64 = "f64";
  std::vector<OpCase> cases;

  // All rows of the pointwise table, including gradients, with sizes that split unevenly. Cases with four dimensions
  // follow below.
  for (const Pointwise& row : pointwise_rows()) {
    const Expr expr = parse_expr(row.expr);
    std::vector<TensorType> in;
    const auto is_bool = bool_operands(expr);
    for (int k = 0; k < variable_count(expr); ++k) in.push_back({is_bool[static_cast<std::size_t>(k)] ? b : f, {5, 3}});
    cases.push_back({row.name, in, {}, row.positive ? "p" : "r"});
    bool divides = false;
    for (const auto& [operand, effect] : outside_effects(expr))
      divides = divides || effect == Signature::OutsideEffect::divisor;
    if (!row.positive && !divides) cases.push_back({row.name, in, {}, "t"});
    if (row.dtypes == OperandDTypes::numbers)
      cases.push_back({row.name, std::vector<TensorType>(in.size(), {i, {5, 3}})});
  }
  const TensorType image{f, {3, 5, 2, 4}};
  const Attrs conv{{"stride", Ints{2, 1}}, {"padding", Ints{1, 1}}, {"dilation", Ints{1, 2}}};
  const Attrs unit{{"stride", Ints{1, 1}}, {"padding", Ints{0, 0}}, {"dilation", Ints{1, 1}}};
  const Attrs pool{{"kernel", Ints{3, 2}}, {"stride", Ints{2, 1}}, {"padding", Ints{1, 1}}};
  const Attrs tiles{{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}, {"padding", Ints{0, 0}}};
  const auto with = [](Attrs attrs, const char* name, Ints value) { return attrs.set(name, value); };

  const std::vector<OpCase> rest = {
      {"relu", {image}},
      {"add", {image, image}},
      {"eq", {{b, {5}}, {b, {5}}}},
      {"constant", {}, {{"dtype", f64}, {"shape", Ints{5, 3}}, {"value", 1.5}}},
      {"constant",
       {},
       {{"dtype", std::string("i32")},
        {"shape", Ints{3, 2}},
        {"data", std::string("0100000002000000030000000400000005000000ffffffff")}}},
      {"iota", {}, {{"dtype", std::string("i64")}, {"shape", Ints{3, 5}}, {"axis", one}}},
      {"iota", {}, {{"dtype", f64}, {"shape", Ints{7}}, {"axis", zero}}},
      {"random_uniform", {{l, {2}}}, {{"dtype", f64}, {"shape", Ints{5, 7}}, {"site", Attr(std::int64_t{11})}}, "n"},
      {"pointwise",
       {{f, {5, 3}}, {f, {5, 3}}, {b, {5, 3}}},
       {{"expr", std::string("select(x2, x0 * x1, x0 - tanh(x1))")}}},
      {"pointwise", {{f, {5, 3}}, {f, {5, 3}}, {f, {5, 3}}}, {{"expr", std::string("x0 * x1 - x2 / 3")}}},
      {"pointwise",
       {{l, {5, 3}}, {l, {5, 3}}},
       {{"expr",
         std::string(
             "select(x1 < 0, select(x0 == 1, 1, select(x0 == -1, 1 - 2 * bitand(x1, 1), 0)), pow(x0, max(x1, 0)))")}},
       "t"},
      {"cast", {{f, {5, 3}}}, {{"to", std::string("i32")}}},
      {"cast", {{f, {5, 3}}}, {{"to", f64}}},
      {"cast", {{i, {5, 3}}}, {{"to", f64}}, "i", 9},
      {"cast", {{b, {5, 3}}}, {{"to", std::string("i64")}}},
      {"cast", {{i, {5, 3}}}, {{"to", std::string("bool")}}, "i", 2},
      {"assign", {{f, {5, 3}}, {f, {5, 3}}}},
      {"copy", {image}},
      {"layout", {image}},
      {"matmul", {{f, {5, 3}}, {f, {3, 7}}}},
      {"matmul", {{f, {3, 5}}, {f, {7, 3}}}, {{"transpose_a", true}, {"transpose_b", true}}},
      {"matmul", {{f, {2, 3, 4, 2}}, {f, {2, 3, 5, 2}}}, {{"transpose_b", true}}},
      {"matmul", {{i, {5, 3}}, {i, {3, 7}}}, {}, "i", 9},
      {"conv2d", {{f, {3, 5, 6, 5}}, {f, {7, 5, 3, 2}}}, conv},
      {"conv2d", {{f, {2, 3, 4, 4}}, {f, {2, 3, 1, 1}}}, unit},
      {"conv2d", {{f, {1, 1, 5, 5}}, {f, {3, 1, 3, 3}}}, unit},
      {"conv2d", {{f, {3, 4, 6, 5}}, {f, {6, 2, 3, 2}}}, Attrs(conv).set("groups", Attr(std::int64_t{2}))},
      {"conv2d", {{f, {2, 4, 5, 5}}, {f, {8, 1, 3, 3}}}, Attrs(unit).set("groups", Attr(std::int64_t{4}))},
      {"conv2d_grad_input",
       {{f, {3, 6, 3, 5}}, {f, {6, 2, 3, 2}}},
       with(conv, "shape", {3, 4, 6, 5}).set("groups", Attr(std::int64_t{2}))},
      {"conv2d_grad_input",
       {{f, {2, 8, 3, 3}}, {f, {8, 1, 3, 3}}},
       with(unit, "shape", {2, 4, 5, 5}).set("groups", Attr(std::int64_t{4}))},
      {"conv2d_grad_weight",
       {{f, {3, 4, 6, 5}}, {f, {3, 6, 3, 5}}},
       with(conv, "kernel", {3, 2}).set("groups", Attr(std::int64_t{2}))},
      {"conv2d_grad_weight",
       {{f, {2, 4, 5, 5}}, {f, {2, 8, 3, 3}}},
       with(unit, "kernel", {3, 3}).set("groups", Attr(std::int64_t{4}))},
      {"conv2d_grad_input", {{f, {3, 7, 3, 5}}, {f, {7, 5, 3, 2}}}, with(conv, "shape", {3, 5, 6, 5})},
      {"conv2d_grad_weight", {{f, {3, 5, 6, 5}}, {f, {3, 7, 3, 5}}}, with(conv, "kernel", {3, 2})},
      {"max_pool", {{f, {3, 5, 6, 5}}}, pool},
      {"max_pool", {{f, {2, 3, 4, 4}}}, tiles},
      {"max_pool", {{f, {3, 5, 6, 5}}}, pool, "t"},
      {"max_pool_grad", {{f, {3, 5, 3, 6}}, {i, {3, 5, 3, 6}}}, with(pool, "shape", {3, 5, 6, 5}), "ri", 5},
      {"max_pool_grad", {{f, {2, 3, 2, 2}}, {i, {2, 3, 2, 2}}}, with(tiles, "shape", {2, 3, 4, 4}), "ri", 3},
      {"avg_pool", {{f, {3, 5, 6, 5}}}, pool},
      {"avg_pool", {{f, {2, 3, 4, 4}}}, tiles},
      {"avg_pool_grad", {{f, {3, 5, 3, 6}}}, with(pool, "shape", {3, 5, 6, 5})},
      {"avg_pool_grad", {{f, {2, 3, 2, 2}}}, with(tiles, "shape", {2, 3, 4, 4})},
      {"reduce_sum", {{f, {5, 3, 2}}}, {{"axes", Ints{1}}}},
      {"reduce_sum", {image}, {{"axes", Ints{0, 2, 3}}}},
      {"reduce_sum", {{i, {5, 3}}}, {{"axes", Ints{0}}}, "i", 9},
      {"reduce_max", {{f, {5, 3, 2}}}, {{"axes", Ints{0, 2}}}},
      {"reduce_max", {{l, {5, 3}}}, {{"axes", Ints{1}}}, "i", 9},
      {"reduce_min", {{f, {5, 3}}}, {{"axes", Ints{1}}}},
      {"reduce_min", {{f, {5, 3}}}, {{"axes", Ints{0, 1}}}},
      {"broadcast", {{f, {3, 5}}}, {{"shape", Ints{2, 3, 4, 5}}, {"dims", Ints{1, 3}}}},
      {"broadcast", {{f, {}}}, {{"shape", Ints{5}}, {"dims", Ints{}}}},
      {"reshape", {{f, {4, 6}}}, {{"shape", Ints{24}}}},
      {"reshape", {{f, {24}}}, {{"shape", Ints{4, 6}}}},
      {"reshape", {{f, {3, 4}}}, {{"shape", Ints{12}}}},
      {"reshape", {{f, {5, 4, 3}}}, {{"shape", Ints{5, 12}}}},
      {"reshape", {{f, {4, 8, 2, 3}}}, {{"shape", Ints{4, 48}}}},
      {"reshape", {{f, {4, 48}}}, {{"shape", Ints{4, 8, 2, 3}}}},
      {"reshape", {{f, {6, 4}}}, {{"shape", Ints{2, 12}}}},
      {"reshape", {{f, {6, 4}}}, {{"shape", Ints{4, 6}}}},
      {"transpose", {{f, {3, 5, 2}}}, {{"perm", Ints{2, 0, 1}}}},
      {"transpose", {image}, {{"perm", Ints{0, 2, 3, 1}}}},
      {"slice", {{f, {5, 6, 3}}}, {{"begin", Ints{0, 2, 0}}, {"size", Ints{5, 3, 3}}}},
      {"slice", {image}, {{"begin", Ints{0, 1, 0, 2}}, {"size", Ints{3, 3, 2, 2}}}},
      {"concat", {{f, {5, 3}}, {f, {5, 1}}, {f, {5, 2}}}, {{"axis", one}}},
      {"concat", {image, image}, {{"axis", one}}},
      {"pad", {{f, {5, 3}}}, {{"low", Ints{0, 1}}, {"high", Ints{0, 2}}, {"value", 0.0}}},
      {"pad", {{f, {5, 3}}}, {{"low", Ints{1, 0}}, {"high", Ints{1, 0}}, {"value", 2.5}}},
      {"gather", {{f, {7, 3}}, {l, {5}}}, {}, "rj", 7},
      {"gather", {{f, {7, 2, 3}}, {i, {2, 3}}}, {}, "rj", 7},
      {"scatter_add", {{l, {9}}, {f, {9, 3}}}, {{"rows", Attr(std::int64_t{5})}}, "jr", 5},
      {"scatter_add", {{i, {2, 3}}, {f, {2, 3}}}, {{"rows", Attr(std::int64_t{7})}}, "jr", 7},
      {"cumsum", {{f, {5, 3, 2}}}, {{"axis", one}}},
      {"resize", {{f, {5, 7, 3}}}, {{"axis", one}, {"size", Attr(std::int64_t{4})}}},
      {"resize", {{f, {3, 5}}}, {{"axis", zero}, {"size", Attr(std::int64_t{8})}, {"bicubic", true}}},
      {"resize", {{f, {5, 2, 3, 5}}}, {{"axis", one}, {"size", Attr(std::int64_t{1})}}},
      {"resize_grad", {{f, {5, 4, 3}}}, {{"axis", one}, {"size", Attr(std::int64_t{7})}}},
      {"resize_grad", {{f, {8, 5}}}, {{"axis", zero}, {"size", Attr(std::int64_t{3})}, {"bicubic", true}}},
      {"cumsum", {{f, {5, 3}}}, {{"axis", zero}, {"reverse", true}}},
      {"cumsum", {{i, {5, 3}}}, {{"axis", zero}}, "i", 9},
      {"sort", {{f, {5, 7}}}, {{"axis", one}}},
      {"sort", {{f, {7, 5}}}, {{"axis", zero}, {"descending", true}}, "t"},
      {"sort", {{f, {5, 7}}}, {{"axis", one}, {"descending", true}, {"first", Attr(std::int64_t{3})}}},
      {"sort", {{f, {5, 7}}}, {{"axis", one}, {"first", Attr(std::int64_t{4})}}, "t"},
      {"sort", {{l, {7, 5}}}, {{"axis", zero}}, "i", 3},
      {"take_along", {{f, {5, 7}}, {l, {5, 3}}}, {{"axis", one}}, "rj", 7},
      {"take_along", {{f, {7, 2, 3}}, {i, {5, 2, 3}}}, {{"axis", zero}}, "rj", 7},
      {"add_along", {{l, {5, 9}}, {f, {5, 9}}}, {{"axis", one}, {"size", Attr(std::int64_t{7})}}, "jr", 7},
      {"add_along", {{i, {4, 2, 3}}, {f, {4, 2, 3}}}, {{"axis", zero}, {"size", Attr(std::int64_t{5})}}, "jr", 5},
      {"one_hot", {{i, {5}}}, {{"depth", Attr(std::int64_t{7})}, {"dtype", f64}}, "j", 7},
      {"one_hot", {{l, {2, 3}}}, {{"depth", Attr(std::int64_t{3})}, {"dtype", std::string("i32")}}, "j", 3},
      {"arg_max", {{f, {5, 7}}}, {{"axis", one}}},
      {"arg_max", {{f, {5, 7}}}, {{"axis", one}}, "t"},
      {"arg_max", {{i, {5, 7}}}, {{"axis", zero}}, "i", 3},
      {"sgd", {{f, {5, 3}}, {f, {5, 3}}, {f, {5, 3}}, {f, {}}}, {{"momentum", 0.9}, {"weight_decay", 0.1}}, "rrrp"},
      {"sgd", {{f, {5, 3}}, {f, {5, 3}}, {f, {5, 3}}, {f, {}}}, {{"momentum", 0.8}, {"nesterov", true}}, "rrrp"},
      {"adam",
       {{f, {5, 3}}, {f, {5, 3}}, {f, {5, 3}}, {f, {5, 3}}, {f, {}}, {l, {}}},
       {{"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}},
       "rrprpn"},
      {"adam",
       {image, image, image, image, {f, {}}, {l, {}}},
       {{"beta1", 0.8}, {"beta2", 0.9}, {"eps", 1e-3}, {"weight_decay", 0.1}, {"decoupled", true}},
       "rrprpn"},
      {"adam",
       {{f, {7}}, {f, {7}}, {f, {7}}, {f, {7}}, {f, {}}, {l, {}}},
       {{"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}, {"weight_decay", 0.1}},
       "rrprpn"},
      {"sgd_if",
       {{f, {5, 3}}, {f, {5, 3}}, {f, {5, 3}}, {f, {}}, {b, {}}},
       {{"momentum", 0.8}, {"nesterov", true}},
       "rrrpp"},
      {"sgd_if", {{f, {5, 3}}, {f, {5, 3}}, {f, {5, 3}}, {f, {}}, {b, {}}}, {{"momentum", 0.9}}, "rrrpz"},
      {"adam_if",
       {{f, {7}}, {f, {7}}, {f, {7}}, {f, {7}}, {f, {}}, {l, {}}, {b, {}}},
       {{"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}},
       "rrprpnp"},
      {"adam_if",
       {image, image, image, image, {f, {}}, {l, {}}, {b, {}}},
       {{"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}},
       "rrprpnz"},
  };
  cases.insert(cases.end(), rest.begin(), rest.end());
  return cases;
}

std::string why_not_computed(const std::string& op) {
  if (op == "input" || op == "variable") return "it has no kernel, because the caller provides its value";
  if (op == "transfer") return "it moves a value to another placement; tests/placements_test.cc tests it";
  if (op == "box") return "it moves bytes between devices; tests/transition_equivalence_test.cc tests it";
  if (op == "accumulate" || op == "micro_join" || op == "micro_slice")
    return "it joins or splits the acts of a launch; tests of micro-batches cover it";
  if (op == "scan") return "a pass unrolls its region; karez/api/scan_test.cc tests it";
  return "";
}

OpCase as_f32(OpCase c) {
  for (TensorType& type : c.in)
    if (type.dtype == DType::f64) type.dtype = DType::f32;
  for (const char* name : {"dtype", "to"})
    if (c.attrs.has(name) && c.attrs.text(name) == "f64") c.attrs.set(name, "f32");
  return c;
}

Graph graph_of(const OpCase& c, const OpTable& ops) {
  Graph graph;
  Builder b(graph, ops);
  std::vector<ValueId> in;
  for (const TensorType& type : c.in) in.push_back(build::input(b, cat(in.size()), type));
  b.add(c.op, in, c.attrs);
  return graph;
}

std::vector<HostArray> random_inputs(const OpCase& c, std::mt19937_64& random) {
  std::int64_t total = 0;
  for (const TensorType& type : c.in) total += type.count();
  std::vector<double> grid;  // distinct numbers in (0, 1), shuffled, so that all reals of the case are distinct
  for (std::int64_t k = 0; k < total; ++k) grid.push_back((static_cast<double>(k) + 0.5) / static_cast<double>(total));
  std::shuffle(grid.begin(), grid.end(), random);
  std::vector<HostArray> out;
  for (const TensorType& type : c.in) {
    const char kind = c.values[std::min(out.size(), c.values.size() - 1)];
    HostArray array(type);
    with_type(type.dtype, [&]<class T>() {
      for (T& x : array.data<T>()) {
        const double u = grid[static_cast<std::size_t>(--total)];
        if constexpr (std::is_same_v<T, bool>) x = kind == 'p' || (kind != 'z' && random() % 2 == 0);
        else if (kind == 'p') x = static_cast<T>(0.5 + 1.5 * u);
        else if (kind == 'n') x = static_cast<T>(3);
        else if (kind == 't') x = static_cast<T>(static_cast<int>(random() % 5) - 2);
        else if (kind == 'i')
          x = static_cast<T>(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(c.index_below + 2)) - 1);
        else if (kind == 'j') x = static_cast<T>(random() % static_cast<std::uint64_t>(c.index_below));
        else if constexpr (std::is_integral_v<T>)
          x = static_cast<T>(random() % 2 == 0 ? 1 + random() % 9 : -1 - static_cast<std::int64_t>(random() % 9));
        else x = static_cast<T>(u < 0.5 ? 4 * u - 2.03 : 4 * u - 1.97);  // none within 0.03 of zero
      }
    });
    out.push_back(array);
  }
  return out;
}

std::vector<HostArray> with_special_values(std::vector<HostArray> inputs, std::mt19937_64& random) {
  for (HostArray& array : inputs)
    with_type(array.dtype(), [&]<class T>() {
      if constexpr (std::is_floating_point_v<T>) {
        constexpr T infinity = std::numeric_limits<T>::infinity(),
                    special[] = {0, -T{0}, infinity, -infinity, std::numeric_limits<T>::quiet_NaN()};
        for (T& x : array.data<T>())
          if (random() % 3 == 0) x = special[random() % 5];
      }
    });
  return inputs;
}

}  // namespace karez::tests
