// Tests of the cast pass: which values mixed precision rounds, and how many times.
#include "karez/passes/logical/cast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/base/text.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {
using ::testing::HasSubstr;
using testing::table;

// A catalog with or without fast bf16 products.
class HalfCatalog : public testing::AnyCatalog {
 public:
  explicit HalfCatalog(bool has_fast_products) : has_fast_products_(has_fast_products) {}
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    auto choice = AnyCatalog::find(call);
    if (choice && is_half(call.in[0].dtype) && !(has_fast_products_ && call.in[0].dtype == DType::bf16))
      choice->rate = 0.05;
    return choice;
  }

 private:
  bool has_fast_products_;
};

// Formats the nodes of the result except inputs, and its variables and outputs.
std::string nodes(std::string_view program, std::optional<DType> low, bool has_products = true) {
  const HalfCatalog catalog(has_products);
  const Graph graph = cast_halves(parse_graph(program, table()), table(), catalog, low);
  verify(graph);
  std::string out;
  for (std::string_view line : split(print(graph), '\n')) {
    line = trim(line);
    if (starts_with(line, "%") && line.find("input(") == line.npos && line.find("variable(") == line.npos)
      out += cat(line, "\n");
    if (starts_with(line, "output") || starts_with(line, "variable")) out += cat(line, "\n");
  }
  return out;
}

constexpr const char* layer = R"(graph main {
  variable "w" : f32[4, 4] read %1 updated %9
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = variable() {dtype="f32", name="w", shape=[4, 4]} : f32[4, 4]
  %2 = input() {dtype="f32", name="b", shape=[2, 4]} : f32[2, 4]
  %3 = matmul(%0, %1) : f32[2, 4]
  %4 = relu(%3) : f32[2, 4]
  %5 = matmul(%4, %1) : f32[2, 4]
  %6 = exp(%5) : f32[2, 4]
  %7 = reduce_sum(%6) {axes=[0, 1]} : f32[]
  %8 = matmul(%4, %6) {transpose_a=true} : f32[4, 4]
  %9 = sub(%1, %8) : f32[4, 4]
  output "loss" %7
}
)";

TEST(Cast, ProductsReadHalvesAndEachValueIsCastOnce) {
  EXPECT_TRUE(golden(nodes(layer, DType::bf16), R"(variable "w" : f32[4, 4] read %1 updated %13
%3 = cast(%0) {to="bf16"} : bf16[2, 4]
%4 = cast(%1) {to="bf16"} : bf16[4, 4]
%5 = matmul(%3, %4) {wide=true} : f32[2, 4]
%6 = relu(%5) : f32[2, 4]
%7 = cast(%6) {to="bf16"} : bf16[2, 4]
%8 = matmul(%7, %4) {wide=true} : f32[2, 4]
%9 = exp(%8) : f32[2, 4]
%10 = reduce_sum(%9) {axes=[0, 1]} : f32[]
%11 = cast(%9) {to="bf16"} : bf16[2, 4]
%12 = matmul(%7, %11) {transpose_a=true, wide=true} : f32[4, 4]
%13 = sub(%1, %12) : f32[4, 4]
output "loss" %10
)"));
}

TEST(Cast, WithoutFastProductsHalvesAreOnlyStored) {
  const std::string bf16 = nodes(layer, DType::bf16, false), f16 = nodes(layer, DType::f16);
  for (const std::string& text : {bf16, f16}) {
    EXPECT_THAT(text, HasSubstr("= matmul(%4, %6) : f32[2, 4]"));
    EXPECT_EQ(text.find("wide"), text.npos);
  }
  EXPECT_THAT(f16, HasSubstr("%3 = cast(%0) {to=\"f16\"} : f16[2, 4]\n%4 = cast(%3) {to=\"f32\"} : f32[2, 4]\n"));
}

TEST(Cast, AValueWithSeveralReadersIsRoundedForAllReadersAndMovedInHalfPrecision) {
  EXPECT_TRUE(golden(nodes(R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = matmul(%0, %0) {transpose_b=true} : f32[2, 2]
  %2 = transpose(%1) {perm=[1, 0]} : f32[2, 2]
  %3 = tanh(%1) : f32[2, 2]
  %4 = add(%2, %3) : f32[2, 2]
  output "y" %4
}
)",
                           DType::bf16),
                     R"(%1 = cast(%0) {to="bf16"} : bf16[2, 4]
%2 = matmul(%1, %1) {transpose_b=true, wide=true} : f32[2, 2]
%3 = cast(%2) {to="bf16"} : bf16[2, 2]
%4 = transpose(%3) {perm=[1, 0]} : bf16[2, 2]
%5 = cast(%3) {to="f32"} : f32[2, 2]
%6 = tanh(%5) : f32[2, 2]
%7 = cast(%4) {to="f32"} : f32[2, 2]
%8 = add(%7, %6) : f32[2, 2]
output "y" %8
)"));
}

TEST(Cast, TwoReadersThatComputeInF32BothReadTheRoundedValue) {
  EXPECT_TRUE(golden(nodes(R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = matmul(%0, %0) {transpose_b=true} : f32[2, 2]
  %2 = sigmoid(%1) : f32[2, 2]
  %3 = tanh(%1) : f32[2, 2]
  output "y" %2
  output "z" %3
}
)",
                           DType::bf16),
                     R"(%1 = cast(%0) {to="bf16"} : bf16[2, 4]
%2 = matmul(%1, %1) {transpose_b=true, wide=true} : f32[2, 2]
%3 = cast(%2) {to="bf16"} : bf16[2, 2]
%4 = cast(%3) {to="f32"} : f32[2, 2]
%5 = sigmoid(%4) : f32[2, 2]
%6 = tanh(%4) : f32[2, 2]
output "y" %5
output "z" %6
)"));
}

TEST(Cast, AResultOfF32AndHalfOperandsIsF32UnlessTheF32OperandIsAParameterOrConstant) {
  const auto program_with_operand = [](const char* operand) {
    return cat(R"(graph main {
  variable "w" : f32[2, 2] read %1
  %0 = input() {dtype="f32", name="x", shape=[2, 2]} : f32[2, 2]
  %1 = variable() {dtype="f32", name="w", shape=[2, 2]} : f32[2, 2]
  %2 = matmul(%0, %1) : f32[2, 2]
  %3 = add(%2, )",
               operand, R"() : f32[2, 2]
  %4 = transpose(%3) {perm=[1, 0]} : f32[2, 2]
  output "y" %4
}
)");
  };
  EXPECT_THAT(nodes(program_with_operand("%1"), DType::bf16), HasSubstr("transpose(%6) {perm=[1, 0]} : bf16[2, 2]"));
  EXPECT_THAT(nodes(program_with_operand("%0"), DType::bf16), HasSubstr("transpose(%5) {perm=[1, 0]} : f32[2, 2]"));
  EXPECT_TRUE(golden(nodes(R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[2, 2]} : f32[2, 2]
  %1 = constant() {dtype="f32", shape=[2, 2], value=3} : f32[2, 2]
  %2 = matmul(%0, %0) : f32[2, 2]
  %3 = mul(%2, %1) : f32[2, 2]
  %4 = transpose(%3) {perm=[1, 0]} : f32[2, 2]
  output "y" %4
}
)",
                           DType::bf16),
                     R"(%1 = constant() {dtype="f32", shape=[2, 2], value=3} : f32[2, 2]
%2 = cast(%0) {to="bf16"} : bf16[2, 2]
%3 = matmul(%2, %2) {wide=true} : f32[2, 2]
%4 = mul(%3, %1) : f32[2, 2]
%5 = cast(%4) {to="bf16"} : bf16[2, 2]
%6 = transpose(%5) {perm=[1, 0]} : bf16[2, 2]
%7 = cast(%6) {to="f32"} : f32[2, 2]
output "y" %7
)"));
}

TEST(Cast, AProductOfF64IsAnErrorUnderMixedPrecision) {
  try {
    nodes(R"(graph main {
  %0 = input() {dtype="f64", name="x", shape=[2, 2]} : f64[2, 2]
  %1 = matmul(%0, %0) : f64[2, 2] at "net.cc:7"
  output "y" %1
}
)",
          DType::bf16);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::type);
    EXPECT_EQ(error.what(),
              std::string("amp: matmul at net.cc:7 multiplies f64, but mixed precision requires f32; cast its operands "
                          "to f32, or omit amp"));
  }
}

TEST(Cast, WithoutMixedPrecisionOpsOnHalvesComputeInF32AndProgramsWithoutHalvesDoNotChange) {
  const Graph graph = parse_graph(layer, table());
  EXPECT_EQ(print(cast_halves(graph, table(), HalfCatalog(true), {})), print(graph));
  constexpr const char* program = R"(graph main {
  %0 = input() {dtype="bf16", name="x", shape=[2, 2]} : bf16[2, 2]
  %1 = matmul(%0, %0) : bf16[2, 2]
  %2 = exp(%1) : bf16[2, 2]
  %3 = reduce_max(%2) {axes=[0]} : bf16[2]
  output "y" %3
}
)";
  EXPECT_TRUE(golden(nodes(program, {}), R"(%1 = matmul(%0, %0) {wide=true} : f32[2, 2]
%2 = cast(%1) {to="bf16"} : bf16[2, 2]
%3 = cast(%2) {to="f32"} : f32[2, 2]
%4 = exp(%3) : f32[2, 2]
%5 = cast(%4) {to="bf16"} : bf16[2, 2]
%6 = cast(%5) {to="f32"} : f32[2, 2]
%7 = reduce_max(%6) {axes=[0]} : f32[2]
%8 = cast(%7) {to="bf16"} : bf16[2]
output "y" %8
)"));
  EXPECT_THAT(nodes(program, {}, false), HasSubstr("%2 = matmul(%1, %1) : f32[2, 2]\n"));
}

}  // namespace
}  // namespace karez::passes
