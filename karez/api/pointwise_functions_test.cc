// Checks that pointwise_functions.h has a documented function for every row of the table that has one, and that these
// functions convert operands as arithmetic does.
#include "karez/api/pointwise_functions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "karez/api/interactive_scope.h"
#include "karez/api/namespace.h"
#include "karez/api/world.h"
#include "karez/base/test_golden_file.h"
#include "karez/base/text.h"

namespace karez {
namespace {

// Returns the text as a comment with lines of at most 120 characters.
std::string comment(const std::string& text) {
  std::string out, line = "//";
  for (const std::string& word : split(text, ' ')) {
    if (line.size() + 1 + word.size() > 120) out += line + "\n", line = "//";
    line += " " + word;
  }
  return out + line + "\n";
}

TEST(PointwiseFunctions, TheHeaderDeclaresAndDocumentsTheFunctionOfEveryRow) {
  std::string text =
      "// Elementwise functions of tensors.\n"
      "// Generated from karez/ops/pointwise.cc by `./dev test --update PointwiseFunctions`; do not edit.\n"
      "#pragma once\n\n#include \"karez/api/op_call.h\"\n\nnamespace karez {\n\n";
  for (const PointwiseFunction& function : pointwise_functions()) {
    const std::vector<std::string> all_names{"x", "y", "z"};
    const std::vector<std::string> names(all_names.begin(), all_names.begin() + function.operands);
    const std::string head = cat("inline Tensor ", function.name, "(",
                                 join(names, ", ", [](const std::string& name) { return "Term " + name; }), ") {");
    const std::string body = cat("return call_op(\"", function.name, "\", {",
                                 join(names, ", ", [](const std::string& name) { return "&" + name; }), "});");
    const std::string line = cat(head, " ", body, " }\n");
    text += comment(function.doc) + (line.size() <= 121 ? line : cat(head, "\n  ", body, "\n}\n"));
  }
  EXPECT_TRUE(golden_file(cat(text, "\n}  // namespace karez\n"), "karez/api/pointwise_functions.h"));
}

TEST(PointwiseFunctions, IntegersBecomeF32IfTheOpAcceptsOnlyFloats) {
  const Tensor integers(HostArray::of<std::int32_t>({3}, {-1, 0, 2}));
  EXPECT_EQ(tanh(integers).dtype(), DType::f32);
  EXPECT_EQ(abs(integers).dtype(), DType::i32);
  EXPECT_EQ(erf(Tensor(HostArray::of<double>({1}, {0}))).dtype(), DType::f64);
  EXPECT_EQ(stop_gradient(Tensor(HostArray::of<bool>({1}, {true}))).dtype(), DType::b8);
}

// No generated function has two operands yet, so this test calls binary ops directly.
TEST(PointwiseFunctions, OperandsOfACallBroadcastAndPromote) {
  const Term rows(Tensor(HostArray::of<float>({2, 1}, {1, 2}))), columns(Tensor(HostArray::of<double>({3}, {1, 2, 3}))),
      number(2.0);
  const Tensor product = call_op("mul", {&rows, &columns});
  EXPECT_EQ(product.shape(), (Shape{2, 3}));
  EXPECT_EQ(product.dtype(), DType::f64);
  EXPECT_EQ(call_op("pow", {&rows, &number}).dtype(), DType::f32);
}

TEST(PointwiseFunctions, TheAxisOfACallMayCountFromTheEnd) {
  World world;
  const Interactive scope(world.mesh());
  const Term x(Tensor(HostArray::of<float>({2, 2}, {1, 2, 3, 4})));
  const HostArray sums = call_op("cumsum", {&x}, {{"axis", std::int64_t{-1}}}).read();
  EXPECT_EQ(sums.data<float>()[1], 3);
  EXPECT_EQ(sums.data<float>()[2], 3);
  EXPECT_THROW(call_op("cumsum", {&x}, {{"axis", std::int64_t{2}}}), Error);
}

}  // namespace
}  // namespace karez
