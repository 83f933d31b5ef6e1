// Tests of operations on integers that are compositions of primitive ops.
#include "karez/ops/integers.h"

#include <gtest/gtest.h>

#include <vector>

#include "karez/base/expr.h"
#include "karez/ops/all_ops.h"

namespace karez::ops {
namespace {

TEST(Integers, ANegativePowerIsZeroExceptForTheBasesOneAndMinusOne) {
  const OpTable ops = all_ops();
  Graph graph;
  Builder b(graph, ops);
  const TensorType type{DType::i64, {4}};
  const ValueId power = build::pow_of_integers(b, build::input(b, "base", type), build::input(b, "power", type));
  const Node& node = graph.node(graph.value(power).producer);
  ASSERT_EQ(node.op->name, "pointwise");
  const base::ExprProgram program = flatten(base::parse_expr(node.attrs.text("expr")));
  struct Case {
    std::int64_t base, power, result;
  };
  for (const Case c : {Case{2, 5, 32},
                       {-3, 3, -27},
                       {7, 0, 1},
                       {0, 0, 1},
                       {2, -1, 0},
                       {-5, -2, 0},
                       {0, -1, 0},
                       {1, -3, 1},
                       {-1, -3, -1},
                       {-1, -4, 1},
                       {-1, 3, -1}})
    EXPECT_EQ(base::evaluate<std::int64_t>(program, std::vector{c.base, c.power}), c.result)
        << c.base << " to the power of " << c.power;
}

}  // namespace
}  // namespace karez::ops
