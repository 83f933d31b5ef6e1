// Tests of reassociation, a step of canonicalise: sums and products are regrouped so that they share terms.
#include "karez/passes/logical/canonicalise.h"

#include <gtest/gtest.h>

#include "karez/passes/logical/test_canonicalise.h"

namespace karez::passes {
namespace {

using testing::count_op;
using testing::table;
using Program = testing::CanonicaliseProgram;

TEST(Canonicalise, SumsShareCommonTermsInAnyOrder) {
  for (int form = 0; form < 4; ++form) {
    Program p;
    ValueId a = p.input("a"), b = p.input("b"), c = p.input("c"), d = p.input("d");
    auto add = [&](ValueId x, ValueId y) { return build::add(p.b, x, y); };
    ValueId x = add(add(a, b), c);
    ValueId y = form == 0   ? add(add(a, b), d)
                : form == 1 ? add(add(d, b), a)
                : form == 2 ? add(b, add(d, a))
                            : add(a, add(b, d));
    p.output(build::mul(p.b, x, y));
    auto expected = testing::evaluate_graph(p.graph);
    EXPECT_EQ(count_op(p.graph, "add"), 4);
    Graph g = p.canonical();
    EXPECT_EQ(count_op(g, "add"), 3) << "form " << form << "\n" << print(g);
    EXPECT_LT(testing::max_relative_difference(expected, testing::evaluate_graph(g)), 1e-14);
  }
}

TEST(Canonicalise, OnRequestProductsShareCommonFactorsIncludingRepeatedOnes) {
  Program p;
  ValueId a = p.input("a"), b = p.input("b"), c = p.input("c");
  auto mul = [&](ValueId x, ValueId y) { return build::mul(p.b, x, y); };
  p.output(mul(mul(a, b), a));  // a a b
  p.output(mul(a, mul(c, a)), "z");
  auto expected = testing::evaluate_graph(p.graph);
  EXPECT_EQ(count_op(p.canonical(), "mul"), 4);
  Graph g = canonicalise(p.graph, {&table(), testing::evaluate_call, 4096, true}).graph;
  EXPECT_EQ(count_op(g, "mul"), 3) << print(g);
  EXPECT_LT(testing::max_relative_difference(expected, testing::evaluate_graph(g)), 1e-14);
}

TEST(Canonicalise, ASingleSumIsNotChanged) {
  Program p;
  ValueId a = p.input("a"), b = p.input("b"), c = p.input("c");
  p.output(build::add(p.b, c, build::add(p.b, b, a)));
  std::string expected = print(p.graph);
  EXPECT_EQ(print(p.canonical()), expected);
}

TEST(Canonicalise, ASumThatIsAnOutputIsNotRegrouped) {
  Program p;
  ValueId a = p.input("a"), b = p.input("b"), c = p.input("c");
  ValueId inner = build::add(p.b, a, b);
  p.output(inner, "inner");
  p.output(build::add(p.b, inner, c));
  Graph g = p.canonical();
  EXPECT_EQ(count_op(g, "add"), 2);
  EXPECT_EQ(g.outputs[0].name, "inner");
}

}  // namespace
}  // namespace karez::passes
