// Tests the text of compositions and their shardings.
#include "karez/ops/compose.h"
#include "karez/base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/graph/test_shardings.h"
#include "karez/ops/all_ops.h"
#include "karez/ops/norms.h"

namespace karez::ops {
namespace {

using namespace build;

struct Program {
  OpTable ops = all_ops();
  Graph graph;
  Builder b{graph, ops};

  ValueId in(const char* name, DType dtype, Shape shape) { return input(b, name, {dtype, std::move(shape)}); }
  std::string text() const {  // without declarations, inputs and types
    verify(graph);
    std::string out;
    for (const auto& line : split(print(graph), '\n'))
      if (line.find(" = ") != std::string::npos && line.find("input()") == std::string::npos)
        out += cat(trim(line.substr(0, line.find(" : "))), "\n");
    return out;
  }
};

template <class Body> std::string error(Body&& body) {
  try {
    body();
    return "";
  } catch (const Error& e) { return e.what(); }
}

TEST(Compose, SomeConstantPowersAreProducts) {
  for (double exponent : {-3.0, -2.0, -1.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0}) {
    Program p;
    pow_of_floats(p.b, p.in("x", DType::f32, {3}), exponent);
    const bool is_product = exponent != -3 && exponent != 1 && exponent != 5;
    EXPECT_EQ(p.text().find("pow") == std::string::npos, is_product) << exponent << p.text();
  }
}

TEST(Compose, CrossEntropySelectsTheLogitBeforeItSubtracts) {
  Program p;
  ValueId logits = p.in("logits", DType::f32, {8, 10}), labels = p.in("labels", DType::i64, {8});
  cross_entropy(p.b, logits, labels);
  EXPECT_TRUE(golden(p.text(), R"(%2 = reduce_max(%0) {axes=[1]}
%3 = stop_gradient(%2)
%4 = broadcast(%3) {dims=[0], shape=[8, 10]}
%5 = sub(%0, %4)
%6 = exp(%5)
%7 = reduce_sum(%6) {axes=[1]}
%8 = log(%7)
%9 = one_hot(%1) {depth=10, dtype="bool", of="cross_entropy's label"}
%10 = constant() {dtype="f32", shape=[], value=0.0}
%11 = broadcast(%10) {dims=[], shape=[8, 10]}
%12 = select(%9, %5, %11)
%13 = reduce_sum(%12) {axes=[1]}
%14 = sub(%8, %13)
%15 = reduce_sum(%14) {axes=[0]}
%16 = constant() {dtype="f32", shape=[], value=0.125}
%17 = mul(%15, %16)
)"));
}

// Classes can be split: every node between the split logits and the vectors [n] may have a split class dimension, and
// the vectors are Partial.
TEST(Compose, CrossEntropyMayBeSplitByClasses) {
  Program p;
  ValueId logits = p.in("logits", DType::f32, {8, 10}), labels = p.in("labels", DType::i64, {8});
  cross_entropy(p.b, logits, labels);
  auto allows = [&](int node, const char* sharding_text) {
    for (const Sharding& s : shardings({&p.graph, NodeId(node)}, 2))
      if (print(s) == sharding_text) return true;
    return false;
  };
  EXPECT_TRUE(allows(2, "S(1) -> P(max)"));
  EXPECT_TRUE(allows(4, "B -> S(1)"));
  EXPECT_TRUE(allows(5, "S(1), S(1) -> S(1)"));
  EXPECT_TRUE(allows(6, "S(1) -> S(1)"));
  EXPECT_TRUE(allows(7, "S(1) -> P(sum)"));
  EXPECT_TRUE(allows(9, "B -> S(1)"));
  EXPECT_TRUE(allows(12, "S(1), S(1), S(1) -> S(1)"));
  EXPECT_TRUE(allows(13, "S(1) -> P(sum)"));
  EXPECT_TRUE(allows(15, "S(0) -> P(sum)")) << "the batch may be split, too";
  EXPECT_TRUE(allows(17, "P(sum), B -> P(sum)")) << "the mean is linear";
}

TEST(Compose, WeightedCrossEntropyDividesByTheSumOfWeights) {
  Program p;
  ValueId logits = p.in("logits", DType::f32, {8, 10}), labels = p.in("labels", DType::i32, {8}),
          weights = p.in("weights", DType::f32, {8});
  cross_entropy(p.b, logits, labels, weights);
  std::string text = p.text();
  EXPECT_TRUE(golden(text.substr(text.find("%15 =")), R"(%15 = sub(%9, %14)
%16 = mul(%15, %2)
%17 = reduce_sum(%16) {axes=[0]}
%18 = reduce_sum(%2) {axes=[0]}
%19 = div(%17, %18)
)"));
}

// Ignored rows use class 0 and have weight 0 and loss 0 for all logits.
TEST(Compose, IgnoredLabelsAreRemovedBySelect) {
  Program p;
  ValueId logits = p.in("logits", DType::f32, {8, 10}), labels = p.in("labels", DType::i32, {8});
  cross_entropy(p.b, logits, labels, {}, -100);
  std::string text = p.text();
  EXPECT_TRUE(golden(text.substr(0, text.find("%10 =")), R"(%2 = constant() {dtype="i32", shape=[], value=-100}
%3 = broadcast(%2) {dims=[], shape=[8]}
%4 = ne(%1, %3)
%5 = constant() {dtype="i32", shape=[], value=0.0}
%6 = broadcast(%5) {dims=[], shape=[8]}
%7 = select(%4, %1, %6)
%8 = constant() {dtype="f32", shape=[], value=0.0}
%9 = broadcast(%8) {dims=[], shape=[8]}
)"));
  EXPECT_THAT(text, testing::HasSubstr("one_hot(%7)"));
  EXPECT_TRUE(golden(text.substr(text.find("%24 =")), R"(%24 = select(%4, %23, %9)
%25 = mul(%24, %10)
%26 = reduce_sum(%25) {axes=[0]}
%27 = reduce_sum(%10) {axes=[0]}
%28 = div(%26, %27)
)"));
}

TEST(Compose, SoftmaxSupportsEveryAxis) {
  Program p;
  softmax(p.b, p.in("x", DType::f32, {8, 10}), 0);
  EXPECT_TRUE(golden(p.text(), R"(%1 = reduce_max(%0) {axes=[0]}
%2 = stop_gradient(%1)
%3 = broadcast(%2) {dims=[1], shape=[8, 10]}
%4 = sub(%0, %3)
%5 = exp(%4)
%6 = reduce_sum(%5) {axes=[0]}
%7 = broadcast(%6) {dims=[1], shape=[8, 10]}
%8 = div(%5, %7)
)"));
  Program q;
  log_softmax(q.b, q.in("x", DType::f32, {2, 8, 10}), -1);
  EXPECT_TRUE(golden(q.text(), R"(%1 = reduce_max(%0) {axes=[2]}
%2 = stop_gradient(%1)
%3 = broadcast(%2) {dims=[0, 1], shape=[2, 8, 10]}
%4 = sub(%0, %3)
%5 = exp(%4)
%6 = reduce_sum(%5) {axes=[2]}
%7 = log(%6)
%8 = broadcast(%7) {dims=[0, 1], shape=[2, 8, 10]}
%9 = sub(%4, %8)
)"));
}

TEST(Compose, AMeanIsTheSumTimesTheInverseLogicalCount) {
  Program p;
  ValueId x = p.in("x", DType::f32, {8, 10});
  ValueId y = mean(p.b, x, {-1}, true);
  EXPECT_EQ(print(p.graph.type(y)), "f32[8, 1]");
  EXPECT_TRUE(golden(p.text(), R"(%1 = reduce_sum(%0) {axes=[1]}
%2 = reshape(%1) {shape=[8, 1]}
%3 = constant() {dtype="f32", shape=[], value=0.1}
%4 = broadcast(%3) {dims=[], shape=[8, 1]}
%5 = mul(%2, %4)
)"));
}

TEST(Compose, DropoutSelectsByLogicalRandomNumbers) {
  Program p;
  ValueId x = p.in("x", DType::f32, {8}), state = p.in("state", DType::i64, {2});
  EXPECT_EQ(dropout(p.b, x, 0, state, 3), x);
  dropout(p.b, x, 0.25, state, 3);
  EXPECT_TRUE(golden(p.text(), R"(%2 = constant() {dtype="f32", shape=[], value=0.0}
%3 = broadcast(%2) {dims=[], shape=[8]}
%4 = random_uniform(%1) {dtype="f32", shape=[8], site=3}
%5 = constant() {dtype="f32", shape=[], value=0.25}
%6 = broadcast(%5) {dims=[], shape=[8]}
%7 = lt(%4, %6)
%8 = constant() {dtype="f32", shape=[], value=1.3333333333333333}
%9 = broadcast(%8) {dims=[], shape=[8]}
%10 = mul(%0, %9)
%11 = select(%7, %3, %10)
)"));
  EXPECT_EQ(error([&] { dropout(p.b, x, 1.5, state, 0); }), "dropout: the probability must be from 0 to 1, got 1.5");
}

TEST(Compose, LinearFlattensLeadingDimensions) {
  Program p;
  ValueId w = p.in("w", DType::f32, {5, 4}), bias = p.in("bias", DType::f32, {5});
  ValueId y = linear(p.b, p.in("x", DType::f32, {2, 3, 4}), w, bias);
  EXPECT_EQ(print(p.graph.type(y)), "f32[2, 3, 5]");
  EXPECT_TRUE(golden(p.text(), R"(%3 = reshape(%2) {shape=[6, 4]}
%4 = matmul(%3, %0) {transpose_b=true}
%5 = broadcast(%1) {dims=[1], shape=[6, 5]}
%6 = add(%4, %5)
%7 = reshape(%6) {shape=[2, 3, 5]}
)"));
  EXPECT_EQ(error([&] {
              linear(p.b, p.in("z", DType::f32, {2, 3}), w);
            }),
            "linear: inner sizes differ: 3 and 4 (x f32[2, 3], weight f32[5, 4])");
}

TEST(Compose, CorrectCountComparesIntegers) {
  Program p;
  ValueId logits = p.in("logits", DType::f32, {8, 10}), labels = p.in("labels", DType::i32, {8}),
          weights = p.in("weights", DType::f32, {8});
  ValueId count = correct_count(p.b, logits, labels, weights);
  EXPECT_EQ(print(p.graph.type(count)), "f32[]");
  EXPECT_TRUE(golden(p.text(), R"(%3 = arg_max(%0) {axis=1}
%4 = cast(%1) {to="i64"}
%5 = eq(%3, %4)
%6 = cast(%5) {to="f32"}
%7 = mul(%6, %2)
%8 = reduce_sum(%7) {axes=[0]}
)"));
}

TEST(Broadcast, ShapesAreBroadcastAsInNumPy) {
  EXPECT_EQ(broadcast_shape({8, 10}, {10}), (Shape{8, 10}));
  EXPECT_EQ(broadcast_shape({8, 1}, {3, 1, 10}), (Shape{3, 8, 10}));
  EXPECT_EQ(broadcast_shape({}, {2}), (Shape{2}));
  EXPECT_EQ(broadcast_shape({0}, {1}), (Shape{0}));
  EXPECT_EQ(error([] { broadcast_shape({8, 10}, {8}); }), "shapes do not broadcast: [8, 10] and [8]");
}

TEST(Broadcast, DimensionsOfSizeOneAreRemovedBeforeBroadcasting) {
  Program p;
  ValueId x = p.in("x", DType::f32, {8, 1}), y = p.in("y", DType::f32, {10});
  binary(p.b, "lt", x, y);
  EXPECT_TRUE(golden(p.text(), R"(%2 = reshape(%0) {shape=[8]}
%3 = broadcast(%2) {dims=[0], shape=[8, 10]}
%4 = broadcast(%1) {dims=[1], shape=[8, 10]}
%5 = lt(%3, %4)
)"));
  p.b.where = "net.cc:4";
  EXPECT_TRUE(golden(error([&] {
                       binary(p.b, "add", x, p.in("z", DType::f32, {3, 2}));
                     }),
                     "add: shapes do not broadcast: [8, 1] and [3, 2]\n  at net.cc:4"));
}

TEST(Compose, InvalidOperandsAreReported) {
  Program p;
  ValueId x = p.in("x", DType::f32, {8, 10}), labels = p.in("labels", DType::f32, {8}),
          int_labels = p.in("int_labels", DType::i64, {8});
  EXPECT_EQ(error([&] { cross_entropy(p.b, x, labels); }),
            "cross_entropy: labels must be i32 or i64 [8] for logits f32[8, 10], got f32[8]");
  EXPECT_EQ(error([&] { cross_entropy(p.b, int_labels, int_labels); }),
            "cross_entropy: logits must be f32 or f64 [n, c], got i64[8]");
  EXPECT_EQ(error([&] { cross_entropy(p.b, x, int_labels, x); }),
            "cross_entropy: weights must be f32[8] for logits f32[8, 10], got f32[8, 10]");
  for (ValueId operand : {p.in("w", DType::f32, {9}), p.in("w", DType::f64, {10}), p.in("w", DType::f32, {8, 1}),
                          p.in("w", DType::f32, {1, 8, 10})}) {
    EXPECT_EQ(error([&] { layer_norm(p.b, x, 1, 1e-5, operand); }),
              cat("layer_norm: weight and bias must be f32 with the last dimensions of x f32[8, 10], got ",
                  p.b.type(operand)));
    EXPECT_EQ(error([&] { layer_norm(p.b, x, 1, 1e-5, {}, operand); }),
              cat("layer_norm: weight and bias must be f32 with the last dimensions of x f32[8, 10], got ",
                  p.b.type(operand)));
  }
  EXPECT_EQ(error([&] { layer_norm(p.b, x, 1, 1e-5, p.in("w", DType::f32, {10}), x); }), "");
  EXPECT_EQ(error([&] { softmax(p.b, x, 2); }), "softmax: axis 2 is not a dimension of f32[8, 10]");
  EXPECT_EQ(error([&] { log_softmax(p.b, x, -3); }), "log_softmax: axis -3 is not a dimension of f32[8, 10]");
  EXPECT_EQ(error([&] { sum(p.b, x, {2}, false); }), "sum: axis 2 is not a dimension of f32[8, 10]");
  EXPECT_EQ(error([&] { mean(p.b, x, {0, -2}, false); }), "mean: axis 0 occurs twice in [0, -2]");
  EXPECT_EQ(error([&] { mean(p.b, int_labels); }), "mean: expected f32 or f64, got i64[8]; cast it first");
  EXPECT_EQ(error([&] { mean(p.b, p.in("e", DType::f32, {0})); }),
            "mean: there are no elements along axes [0] of f32[0]");
}

}  // namespace
}  // namespace karez::ops
