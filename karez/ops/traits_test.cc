// Tests the roles and properties of ops that passes use.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "karez/ops/all_ops.h"
#include "karez/ops/pointwise.h"

namespace karez::ops {
namespace {

const OpTable& table() {
  static const OpTable ops = all_ops();
  return ops;
}

template <class F> std::string names_where(F&& condition) {
  std::string names;
  for (const OpDef* op : table().rows())
    if (condition(*op)) names += (names.empty() ? "" : " ") + op->name;
  return names;
}
std::string names_of(Role role) {
  return names_where([&](const OpDef& op) { return op.role == role; });
}

TEST(Traits, OpsHaveTheListedRoles) {
  EXPECT_EQ(names_of(Role::source), "input");
  EXPECT_EQ(names_of(Role::state), "variable");
  EXPECT_EQ(names_of(Role::constant), "constant iota");
  EXPECT_EQ(names_of(Role::window), "broadcast layout reshape slice transpose");
  EXPECT_EQ(names_of(Role::update), "adam adam_if sgd sgd_if");
  EXPECT_EQ(names_of(Role::store), "assign");
  EXPECT_EQ(names_of(Role::transition), "box");
  EXPECT_EQ(names_of(Role::accumulate), "accumulate");
  EXPECT_EQ(names_of(Role::micro_join), "micro_join");
  EXPECT_EQ(names_of(Role::micro_slice), "micro_slice");
  EXPECT_EQ(names_where([](const OpDef& op) { return op.shared_operands.has_value(); }), "adam adam_if sgd sgd_if");
  EXPECT_EQ(names_where([](const OpDef& op) { return !op.call_name.empty(); }), "assign layout");
}

TEST(Traits, OpsOfEachRoleHaveTheFieldsThatPassesRequire) {
  for (const OpDef* op : table().rows()) {
    EXPECT_EQ(op->role == Role::window, static_cast<bool>(op->window)) << op->name;
    if (op->role == Role::window) { EXPECT_EQ(op->inputs, 1) << op->name; }
    if (op->role == Role::source || op->role == Role::state || op->role == Role::constant) {
      EXPECT_EQ(op->inputs, 0) << op->name;
    }
    if (op->role == Role::update || op->role == Role::store) { EXPECT_FALSE(op->in_place.empty()) << op->name; }
    if (op->shared_operands) {
      EXPECT_LT(*op->shared_operands + static_cast<int>(op->in_place.size()), op->inputs)
          << op->name << " must also have a gradient operand";
    }
    EXPECT_TRUE(op->expr.empty() || op->elementwise) << op->name;
    EXPECT_TRUE(!op->associative || op->commutative) << op->name;
  }
}

// The first operands of updates are states, and each is overwritten by the result with the same index.
TEST(Traits, AnUpdateOverwritesItsFirstOperandsInOrder) {
  for (const char* name : {"sgd", "adam", "sgd_if", "adam_if"}) {
    const auto& pairs = table().at(name).in_place;
    for (std::size_t i = 0; i < pairs.size(); ++i)
      EXPECT_EQ(pairs[i], std::pair(static_cast<int>(i), static_cast<int>(i))) << name;
  }
}

TEST(Traits, CommutativeOpsGiveTheSameResultWhenSwapped) {
  const double inf = std::numeric_limits<double>::infinity();
  const double numbers[] = {0, -0.0, 1, -2.5, 1e308, inf, -inf, std::nan("")};
  for (const OpDef* op : table().rows()) {
    if (op->inputs != 2 || op->expr.empty()) {
      EXPECT_FALSE(op->commutative) << op->name;
      continue;
    }
    bool is_logical = op->name == "and" || op->name == "or";
    ExprProgram program = flatten(parse_expr(op->expr));
    bool same = true;
    for (double a : numbers)
      for (double b : numbers) {
        if (is_logical) a = a > 0, b = b > 0;
        double x = evaluate<double>(program, std::vector{a, b}), y = evaluate<double>(program, std::vector{b, a});
        same &= x == y || (std::isnan(x) && std::isnan(y));
      }
    EXPECT_EQ(op->commutative, same) << op->name;
  }
  EXPECT_EQ(names_where([](const OpDef& op) { return op.commutative; }), "add and eq max min mul ne or");
  EXPECT_EQ(names_where([](const OpDef& op) { return op.associative; }), "add mul");
  EXPECT_EQ(names_where([](const OpDef& op) { return op.overflows_regrouped; }), "mul");
}

// Compares the view and the offset of a window with the elements that it must show.
TEST(Traits, AWindowShowsTheElementsOfItsOp) {
  View x(DType::f32, {4, 6}, {6, 1});
  auto slice = table().at("slice").window(x, {2, 3}, Attrs().set("begin", Ints{1, 2}).set("size", Ints{2, 3}));
  ASSERT_TRUE(slice);
  EXPECT_EQ(slice->view, View(DType::f32, {2, 3}, {6, 1}));
  EXPECT_EQ(slice->offset, 4 * (6 + 2));
  auto empty_slice = table().at("slice").window(x, {0, 3}, Attrs().set("begin", Ints{4, 2}).set("size", Ints{0, 3}));
  EXPECT_EQ(empty_slice->offset, 0) << "an empty result has offset 0, not one past the end";
  auto transposed = table().at("transpose").window(x, {6, 4}, Attrs().set("perm", Ints{1, 0}));
  EXPECT_EQ(transposed->view, View(DType::f32, {6, 4}, {1, 6}));
  auto repeated = table().at("broadcast").window(View(DType::f32, {6}, {1}), {4, 6}, Attrs().set("dims", Ints{1}));
  EXPECT_EQ(repeated->view, View(DType::f32, {4, 6}, {0, 1}));
  EXPECT_TRUE(table().at("reshape").window(x, {2, 12}, {}));
  EXPECT_FALSE(table().at("reshape").window(View(DType::f32, {4, 6}, {1, 4}), {2, 12}, {}))
      << "no strides show column-major data in row-major order";
}

}  // namespace
}  // namespace karez::ops
