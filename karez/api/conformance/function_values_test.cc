// Tests of the values and types that elementwise functions, reductions, functions along an axis and functions of shapes
// return. The expected numbers are calculated by hand.
#include "karez/api/functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/testing/test_values.h"
#include "karez/api/world.h"

namespace karez {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
constexpr DType f32 = DType::f32, f64 = DType::f64, i32 = DType::i32, i64 = DType::i64, b8 = DType::b8;

// The operands: matrices x and y, integers n, an index i and bools b.
struct Operands {
  World world;
  Interactive scope{world.mesh()};
  Tensor x = HostArray::of<float>({2, 3}, {1, -2, 3, 4, 5, -6}),
         y = HostArray::of<float>({2, 3}, {2, -2, 0.5, 1, 5, 2}),
         n = HostArray::of<std::int32_t>({2, 3}, {3, 0, -2, 1, 5, 4}),
         i = HostArray::of<std::int64_t>({2, 3}, {2, 0, 1, 1, 1, 0}), b = make_bools();
  Tensor make_bools() const { return HostArray::of<std::int32_t>({2, 3}, {1, 0, 1, 1, 1, 1}) > Term(0); }
};

struct Case {
  const char* name;
  Tensor (*function)(const Operands&);
  TensorType type;
  std::vector<double> expected;
};

void check(const std::vector<Case>& cases) {
  const Operands operands;
  for (const Case& c : cases) expect_values(c.name, c.function(operands), c.type, c.expected);
}

TEST(FunctionValues, ElementwiseFunctions) {
  check({
      {"x - y", [](const auto& o) { return o.x - o.y; }, {f32, {2, 3}}, {-1, 0, 2.5, 3, 0, -8}},
      {"x / y", [](const auto& o) { return o.x / o.y; }, {f32, {2, 3}}, {0.5, 1, 6, 4, 1, -3}},
      {"n / 2", [](const auto& o) { return o.n / 2; }, {f32, {2, 3}}, {1.5, 0, -1, 0.5, 2.5, 2}},
      {"8 / n", [](const auto& o) { return 8 / (o.n + 3); }, {f32, {2, 3}}, {8. / 6, 8. / 3, 8, 2, 1, 8. / 7}},
      {"-x", [](const auto& o) { return -o.x; }, {f32, {2, 3}}, {-1, 2, -3, -4, -5, 6}},
      {"-n", [](const auto& o) { return -o.n; }, {i32, {2, 3}}, {-3, 0, 2, -1, -5, -4}},
      {"relu of floats", [](const auto& o) { return relu(o.x); }, {f32, {2, 3}}, {1, 0, 3, 4, 5, 0}},
      {"relu of integers", [](const auto& o) { return relu(o.n); }, {i32, {2, 3}}, {3, 0, 0, 1, 5, 4}},
      {"pow with a number", [](const auto& o) { return pow(o.x, 2); }, {f32, {2, 3}}, {1, 4, 9, 16, 25, 36}},
      {"pow of a number", [](const auto& o) { return pow(2, o.y); }, {f32, {2, 3}}, {4, 0.25, std::sqrt(2), 2, 32, 4}},
      {"pow of integers", [](const auto& o) { return pow(o.n, 0); }, {i32, {2, 3}}, {1, 1, 1, 1, 1, 1}},
      {"maximum", [](const auto& o) { return maximum(o.x, o.y); }, {f32, {2, 3}}, {2, -2, 3, 4, 5, 2}},
      {"minimum", [](const auto& o) { return minimum(o.x, 3); }, {f32, {2, 3}}, {1, -2, 3, 3, 3, -6}},
      {"equal", [](const auto& o) { return equal(o.x, o.y); }, {b8, {2, 3}}, {0, 1, 0, 0, 1, 0}},
      {"not_equal", [](const auto& o) { return not_equal(o.x, o.y); }, {b8, {2, 3}}, {1, 0, 1, 1, 0, 1}},
      {"x < y", [](const auto& o) { return o.x < o.y; }, {b8, {2, 3}}, {1, 0, 0, 0, 0, 1}},
      {"x <= y", [](const auto& o) { return o.x <= o.y; }, {b8, {2, 3}}, {1, 1, 0, 0, 1, 1}},
      {"x > y", [](const auto& o) { return o.x > o.y; }, {b8, {2, 3}}, {0, 0, 1, 1, 0, 0}},
      {"x >= y", [](const auto& o) { return o.x >= o.y; }, {b8, {2, 3}}, {0, 1, 1, 1, 1, 0}},
      {"logical_and", [](const auto& o) { return logical_and(o.b, o.x < o.y); }, {b8, {2, 3}}, {1, 0, 0, 0, 0, 1}},
      {"logical_or", [](const auto& o) { return logical_or(o.x < o.y, false); }, {b8, {2, 3}}, {1, 0, 0, 0, 0, 1}},
      {"logical_not", [](const auto& o) { return logical_not(o.b); }, {b8, {2, 3}}, {0, 1, 0, 0, 0, 0}},
      {"select", [](const auto& o) { return select(o.b, o.x, o.y); }, {f32, {2, 3}}, {1, -2, 3, 4, 5, -6}},
      {"select of columns",
       [](const auto& o) {
         return select(slice(o.b, {0, 1}, {2, 1}), o.n, 0.5);
       },
       {f32, {2, 3}},
       {0.5, 0.5, 0.5, 1, 5, 4}},
      {"where",
       [](const auto& o) {
         return where(o.x < o.y, 1, slice(o.n, {0, 0}, {1, 3}));
       },
       {i32, {2, 3}},
       {1, 0, -2, 3, 0, 1}},
      {"clip", [](const auto& o) { return clip(o.x, -1, 4); }, {f32, {2, 3}}, {1, -1, 3, 4, 4, -1}},
      {"clip from below", [](const auto& o) { return clip(o.x, 2); }, {f32, {2, 3}}, {2, 2, 3, 4, 5, 2}},
      {"clip from above", [](const auto& o) { return clip(o.x, {}, 2); }, {f32, {2, 3}}, {1, -2, 2, 2, 2, -6}},
      {"cast", [](const auto& o) { return cast(o.y, i32); }, {i32, {2, 3}}, {2, -2, 0, 1, 5, 2}},
      {"pointwise",
       [](const auto& o) {
         return pointwise("x - 2 * y + z", {o.x, slice(o.n, {0, 0}, {1, 3}), 0.5});
       },
       {f32, {2, 3}},
       {-4.5, -1.5, 7.5, -1.5, 5.5, -1.5}},
      {"numbers", [](const auto&) { return Tensor(3) - 0.5; }, {f32, {}}, {2.5}},
  });
}

TEST(FunctionValues, Reductions) {
  check({
      {"sum", [](const auto& o) { return sum(o.x); }, {f32, {}}, {5}},
      {"sum of rows", [](const auto& o) { return sum(o.x, {1}); }, {f32, {2}}, {2, 3}},
      {"sum of columns", [](const auto& o) { return sum(o.x, {-2}, true); }, {f32, {1, 3}}, {5, 3, -3}},
      {"sum of integers", [](const auto& o) { return sum(o.n, {0}); }, {i64, {3}}, {4, 5, 2}},
      {"sum of bools", [](const auto& o) { return sum(o.b); }, {i64, {}}, {5}},
      {"mean",
       [](const auto& o) {
         return mean(o.x, {0, 1}, true);
       },
       {f32, {1, 1}},
       {5. / 6}},
      {"mean of rows", [](const auto& o) { return mean(o.x, {1}); }, {f32, {2}}, {2. / 3, 1}},
      {"max", [](const auto& o) { return max(o.x, {0}); }, {f32, {3}}, {4, 5, 3}},
      {"max of all", [](const auto& o) { return max(o.n, {}, true); }, {i32, {1, 1}}, {5}},
      {"min", [](const auto& o) { return min(o.x, {1}, true); }, {f32, {2, 1}}, {-2, -6}},
      {"min of all", [](const auto& o) { return min(o.n); }, {i32, {}}, {-2}},
      {"max of bools", [](const auto& o) { return max(o.b, {1}); }, {b8, {2}}, {1, 1}},
      {"any", [](const auto& o) { return any(o.x > 4, {1}); }, {b8, {2}}, {0, 1}},
      {"any of columns", [](const auto& o) { return any(o.x < 0, {0}, true); }, {b8, {1, 3}}, {0, 1, 1}},
      {"any of none", [](const auto& o) { return any(o.x > 9); }, {b8, {}}, {0}},
      {"all", [](const auto& o) { return all(o.b, {1}); }, {b8, {2}}, {0, 1}},
      {"all of columns", [](const auto& o) { return all(o.b, {0}, true); }, {b8, {1, 3}}, {1, 0, 1}},
      {"all of all", [](const auto& o) { return all(o.x < 9); }, {b8, {}}, {1}},
      {"arg_max", [](const auto& o) { return arg_max(o.x); }, {i64, {2}}, {2, 1}},
      {"arg_max of columns", [](const auto& o) { return arg_max(o.x, 0); }, {i64, {3}}, {1, 1, 0}},
      {"arg_max of bools", [](const auto& o) { return arg_max(o.b, 0); }, {i64, {3}}, {0, 1, 0}},
      {"arg_min", [](const auto& o) { return arg_min(o.x); }, {i64, {2}}, {1, 2}},
      {"arg_min of columns", [](const auto& o) { return arg_min(o.x, -2); }, {i64, {3}}, {0, 0, 1}},
      {"arg_min of integers", [](const auto& o) { return arg_min(o.n, 0); }, {i64, {3}}, {1, 0, 0}},
      {"arg_min of the smallest integer",
       [](const auto& o) { return arg_min(o.n * 0 + std::numeric_limits<std::int32_t>::min() + relu(o.n)); },
       {i64, {2}},
       {1, 0}},
      {"var", [](const auto& o) { return var(o.x, {1}); }, {f32, {2}}, {19. / 3, 37}},
      {"var of a population",
       [](const auto& o) { return var(o.x, {0}, true, 0); },
       {f32, {1, 3}},
       {2.25, 12.25, 20.25}},
      {"stddev",
       [](const auto& o) { return stddev(o.x, {1}, true); },
       {f32, {2, 1}},
       {std::sqrt(19. / 3), std::sqrt(37)}},
      {"stddev of a population", [](const auto& o) { return stddev(o.x, {0}, false, 0); }, {f32, {3}}, {1.5, 3.5, 4.5}},
      {"norm", [](const auto& o) { return norm(o.x, 2, {1}); }, {f32, {2}}, {std::sqrt(14), std::sqrt(77)}},
      {"norm with p = 1", [](const auto& o) { return norm(o.x, 1, {0}, true); }, {f32, {1, 3}}, {5, 7, 9}},
      {"norm with p = 0", [](const auto& o) { return norm(relu(o.x), 0); }, {f32, {}}, {4}},
      {"norm with p = inf", [](const auto& o) { return norm(o.x, inf, {1}); }, {f32, {2}}, {3, 6}},
      {"norm with p = 3",
       [](const auto& o) { return norm(o.x, 3, {-1}); },
       {f32, {2}},
       {std::cbrt(36), std::cbrt(405)}},
  });
}

TEST(FunctionValues, FunctionsAlongAnAxis) {
  const double e = std::exp(1), sum = 1 + e + e * e;
  const Operands operands;
  check({
      {"softmax",
       [](const auto&) {
         return softmax(iota({1, 3}, 1));
       },
       {f32, {1, 3}},
       {1 / sum, e / sum, e * e / sum}},
      {"softmax of columns",
       [](const auto&) {
         return softmax(iota({1, 3}, 1), 0);
       },
       {f32, {1, 3}},
       {1, 1, 1}},
      {"log_softmax",
       [](const auto&) {
         return log_softmax(iota({3, 1}, 0), -2);
       },
       {f32, {3, 1}},
       {-std::log(sum), 1 - std::log(sum), 2 - std::log(sum)}},
      {"cumsum", [](const auto& o) { return cumsum(o.x); }, {f32, {2, 3}}, {1, -1, 2, 4, 9, 3}},
      {"cumsum of columns", [](const auto& o) { return cumsum(o.n, 0); }, {i64, {2, 3}}, {3, 0, -2, 4, 5, 2}},
      {"cumsum of bools", [](const auto& o) { return cumsum(o.b, -1); }, {i64, {2, 3}}, {1, 1, 2, 1, 2, 3}},
      {"sort", [](const auto& o) { return sort(o.x).values; }, {f32, {2, 3}}, {-2, 1, 3, -6, 4, 5}},
      {"sort indices", [](const auto& o) { return sort(o.x).indices; }, {i64, {2, 3}}, {1, 0, 2, 2, 0, 1}},
      {"sort of columns", [](const auto& o) { return sort(o.x, 0, true).values; }, {f32, {2, 3}}, {4, 5, 3, 1, -2, -6}},
      {"sort of bools", [](const auto& o) { return sort(o.b, 1, true).values; }, {b8, {2, 3}}, {1, 1, 0, 1, 1, 1}},
      {"argsort", [](const auto& o) { return argsort(o.n, -1, true); }, {i64, {2, 3}}, {0, 1, 2, 1, 2, 0}},
      {"argsort of columns", [](const auto& o) { return argsort(o.x, 0); }, {i64, {2, 3}}, {0, 0, 1, 1, 1, 0}},
      {"topk", [](const auto& o) { return topk(o.x, 2).values; }, {f32, {2, 2}}, {3, 1, 5, 4}},
      {"topk indices", [](const auto& o) { return topk(o.x, 1, 0, false).indices; }, {i64, {1, 3}}, {0, 0, 1}},
      {"topk of all", [](const auto& o) { return topk(o.n, 3, 1, false).values; }, {i32, {2, 3}}, {-2, 0, 3, 1, 4, 5}},
      {"topk of none", [](const auto& o) { return topk(o.n, 0).values; }, {i32, {2, 0}}, {}},
      {"take_along", [](const auto& o) { return take_along(o.x, o.i); }, {f32, {2, 3}}, {3, 1, -2, 5, 5, 4}},
      {"take_along columns",
       [](const auto& o) { return take_along(o.n, cast(o.b, i64), 0); },
       {i32, {2, 3}},
       {1, 0, 4, 1, 5, 4}},
      {"take_along of bools", [](const auto& o) { return take_along(o.b, o.i, 1); }, {b8, {2, 3}}, {1, 1, 0, 1, 1, 1}},
      {"add_along", [](const auto& o) { return add_along(o.i, o.x, 4); }, {f32, {2, 4}}, {-2, 3, 1, 0, -6, 9, 0, 0}},
      {"add_along columns",
       [](const auto& o) { return add_along(cast(o.b, i64), o.n, 2, 0); },
       {i32, {2, 3}},
       {0, 0, 0, 4, 5, 2}},
      {"gather",
       [](const auto& o) {
         return gather(o.x, slice(cast(o.i, i32), {0, 1}, {1, 2}));
       },
       {f32, {1, 2, 3}},
       {1, -2, 3, 4, 5, -6}},
      {"gather of integers", [](const auto& o) { return gather(o.n, 1); }, {i32, {3}}, {1, 5, 4}},
      {"one_hot", [](const auto&) { return one_hot(iota({2}, 0, i32), 3); }, {f32, {2, 3}}, {1, 0, 0, 0, 1, 0}},
      {"one_hot of i64", [](const auto&) { return one_hot(1, 2, i64); }, {i64, {2}}, {0, 1}},
      {"call_op with an axis",
       [](const auto& o) {
         const Term x(o.x);
         return call_op("cumsum", {&x}, {{"axis", std::int64_t{-2}}});
       },
       {f32, {2, 3}},
       {1, -2, 3, 5, 3, -3}},
  });
}

TEST(FunctionValues, FunctionsOfShapes) {
  check({
      {"reshape",
       [](const auto& o) {
         return reshape(o.x, {3, -1});
       },
       {f32, {3, 2}},
       {1, -2, 3, 4, 5, -6}},
      {"flatten",
       [](const auto& o) {
         return flatten(reshape(o.n, {1, 2, 3}));
       },
       {i32, {1, 6}},
       {3, 0, -2, 1, 5, 4}},
      {"flatten all", [](const auto& o) { return flatten(o.n, 0); }, {i32, {6}}, {3, 0, -2, 1, 5, 4}},
      {"transpose", [](const auto& o) { return transpose(o.x); }, {f32, {3, 2}}, {1, 4, -2, 5, 3, -6}},
      {"transpose of the last two",
       [](const auto& o) {
         return transpose(reshape(o.n, {1, 3, 2}));
       },
       {i32, {1, 2, 3}},
       {3, -2, 5, 0, 1, 4}},
      {"transpose with a permutation",
       [](const auto& o) {
         return transpose(reshape(o.n, {1, 3, 2}), {2, 0, 1});
       },
       {i32, {2, 1, 3}},
       {3, -2, 5, 0, 1, 4}},
      {"broadcast_to",
       [](const auto& o) {
         return broadcast_to(slice(o.x, {0, 1}, {2, 1}), {2, 2, 2});
       },
       {f32, {2, 2, 2}},
       {-2, -2, 5, 5, -2, -2, 5, 5}},
      {"broadcast_to of a number", [](const auto&) { return broadcast_to(7, {2}); }, {i64, {2}}, {7, 7}},
      {"slice",
       [](const auto& o) {
         return slice(o.x, {1, 0}, {1, 2});
       },
       {f32, {1, 2}},
       {4, 5}},
      {"concat",
       [](const auto& o) {
         return concat({o.x, o.y});
       },
       {f32, {4, 3}},
       {1, -2, 3, 4, 5, -6, 2, -2, 0.5, 1, 5, 2}},
      {"concat of columns",
       [](const auto& o) {
         return concat({slice(o.n, {0, 2}, {2, 1}), o.n}, -1);
       },
       {i32, {2, 4}},
       {-2, 3, 0, -2, 4, 1, 5, 4}},
      {"pad",
       [](const auto& o) {
         return pad(slice(o.x, {0, 0}, {2, 1}), {1, 0}, {0, 2});
       },
       {f32, {3, 3}},
       {0, 0, 0, 1, 0, 0, 4, 0, 0}},
      {"pad with a value",
       [](const auto& o) {
         return pad(slice(o.x, {0, 0}, {1, 1}), {0, 1}, {0, 0}, -7);
       },
       {f32, {1, 2}},
       {-7, 1}},
      {"full", [](const auto&) { return full({2}, 2.5); }, {f32, {2}}, {2.5, 2.5}},
      {"full of f64",
       [](const auto&) {
         return full({1, 1}, 0.1, f64);
       },
       {f64, {1, 1}},
       {0.1}},
      {"iota",
       [](const auto&) {
         return iota({2, 2}, 1);
       },
       {f32, {2, 2}},
       {0, 1, 0, 1}},
      {"iota of integers",
       [](const auto&) {
         return iota({2, 2}, 0, i64);
       },
       {i64, {2, 2}},
       {0, 0, 1, 1}},
      {"constant",
       [](const auto&) {
         return constant(HostArray::of<std::int32_t>({2}, {4, -5}));
       },
       {i32, {2}},
       {4, -5}},
      {"apply",
       [](const auto& o) {
         return apply("sub", {o.x, o.x + o.y});
       },
       {f32, {2, 3}},
       {-2, 2, -0.5, -1, -5, -2}},
      {"apply_all",
       [](const auto& o) {
         return apply_all("concat", {o.n, o.n}, {{"axis", std::int64_t{1}}})[0];
       },
       {i32, {2, 6}},
       {3, 0, -2, 3, 0, -2, 1, 5, 4, 1, 5, 4}},
      {"NaN in a maximum", [](const auto& o) { return max(o.x / 0 * 0); }, {f32, {}}, {nan}},
  });
}

TEST(FunctionErrors, EachTextNamesTheFunctionAndTheOperand) {
  const Operands o;
  const HostArray no_array;
  const std::vector<std::pair<std::string, std::function<void()>>> cases = {
      {"neg: expected numbers, got bool[2, 3]; use logical_not for bools", [&] { -o.b; }},
      {"reshape to [-1, -1]: only one size may be -1",
       [&] {
         reshape(o.x, {-1, -1});
       }},
      {"reshape: the 6 elements of f32[2, 3] do not fit shape [4, -1]",
       [&] {
         reshape(o.x, {4, -1});
       }},
      {"reshape: the 6 elements of f32[2, 3] do not fit shape [0, -1]",
       [&] {
         reshape(o.x, {0, -1});
       }},
      {"flatten: dimension 2 of f32[2, 3] does not exist", [&] { flatten(o.x, 2); }},
      {"flatten: dimension -1 of f32[2, 3] does not exist", [&] { flatten(o.x, -1); }},
      {"transpose: f32[6] has fewer than two dimensions", [&] { transpose(flatten(o.x, 0)); }},
      {"concat: at least one tensor is required", [] { concat(std::vector<Term>()); }},
      {"axis 2 of a tensor with 2 dimensions does not exist",
       [&] {
         concat({o.x, o.x}, 2);
       }},
      {"axis 1 occurs twice in [1, -1]",
       [&] {
         sum(o.x, {1, -1});
       }},
      {"constant: the array is uninitialised", [&] { constant(no_array); }},
      {"Tensor: the host array is uninitialised", [&] { Tensor{no_array}; }},
      {"apply: op 'sort' has 2 results; use apply_all",
       [&] {
         apply("sort", {o.x}, {{"axis", std::int64_t{1}}, {"descending", false}});
       }},
      {"pointwise 'x': at least one operand is required", [] { pointwise("x", {}); }},
      {"einsum 'i->i': at least one operand is required", [] { einsum("i->i", {}); }},
      {"tanh: at least one operand is required", [] { call_op("tanh", {}); }},
      {"cumsum: axis 2 of f32[2, 3] does not exist", [&] { cumsum(o.x, 2); }},
      {"sort: axis -3 of f32[2, 3] does not exist", [&] { sort(o.x, -3); }},
      {"argsort: axis 3 of f32[2, 3] does not exist", [&] { argsort(o.x, 3); }},
      {"topk: axis 2 of f32[2, 3] does not exist", [&] { topk(o.x, 1, 2); }},
      {"topk: k must be from 0 to the size of axis 1 of f32[2, 3], got 4", [&] { topk(o.x, 4); }},
      {"topk: k must be from 0 to the size of axis 0 of f32[2, 3], got -1", [&] { topk(o.x, -1, 0); }},
      {"take_along: axis 2 of f32[2, 3] does not exist", [&] { take_along(o.x, o.i, 2); }},
      {"add_along: axis 2 of f32[2, 3] does not exist", [&] { add_along(o.i, o.x, 4, 2); }},
      {"mean: expected a floating-point tensor, got i32[2, 3]; cast it to a float first", [&] { mean(o.n); }},
      {"any: expected bool, got i32[2, 3]", [&] { any(o.n); }},
      {"all: expected bool, got f32[2, 3]", [&] { all(o.x); }},
      {"axis 2 of a tensor with 2 dimensions does not exist", [&] { arg_max(o.x, 2); }},
      {"dimension 2 of a tensor of shape [2, 3] does not exist", [&] { o.x.size(2); }},
      {"dimension -3 of a tensor of shape [2, 3] does not exist", [&] { o.x.size(-3); }},
      {"item: the tensor must have exactly one element, got f32[2, 3]", [&] { o.x.item(); }},
      {"an uninitialised tensor cannot be read", [] { Tensor().read(); }},
      {"dropout: the probability must be in [0, 1), got 1.0", [&] { dropout(o.x, 1); }},
  };
  for (const auto& [text, call] : cases) {
    const std::string error = error_of(call);
    EXPECT_EQ(error.substr(0, error.find("\n  at ")), text);
  }
}

}  // namespace
}  // namespace karez
