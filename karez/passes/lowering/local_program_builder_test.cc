// Tests of the choice of kernels, teams and copies in the localise pass.
#include "karez/passes/lowering/local_program_builder.h"

#include <gtest/gtest.h>

#include "karez/passes/lowering/test_localise.h"

namespace karez::passes {
namespace {

using testing::print_calls;
using testing::table;
using Program = testing::LocaliseProgram;

// For a replicated product, the work of one device is the entire product.
TEST(Localise, ATeamIsChosenByTheWorkOfOneDevice) {
  CostTable costs;
  std::int64_t rows = 4;
  auto seconds = [&] {
    std::vector<TensorType> in = {{DType::f32, {rows, 128}}, {DType::f32, {128, 128}}},
                            out = {{DType::f32, {rows, 128}}};
    Cost cost = cost_of(table().at("matmul"), in, out, {});
    return costs.seconds(cost);
  };
  while (seconds() < 1.5e-5) rows += 4;
  ASSERT_LT(seconds(), 2 * 1.5e-5) << "a quarter of the product must not justify a second thread";
  for (Sbp entry : {B(), S(0)}) {
    Program p("data=4");
    p.output(
        p.fix(build::matmul(p.b, p.fix(p.input("x", {rows, 128}), {entry}), p.fix(p.input("w", {128, 128}), {B()})),
              {entry}));
    Compilation c = testing::compilation(p.graph);
    c.catalog = &p.catalog;
    c.options.team = 2;
    run_passes(c, {"shard", "box", "order", "segment", "slots", "layout", "localise"});
    int products = 0;
    for (const LocalSegment& segment : c.local.segments)
      for (const LocalCall& call : segment.calls) {
        if (call.spec.op != "matmul") continue;
        ++products;
        EXPECT_EQ(call.spec.team, entry.is_broadcast() ? 2 : 1);
      }
    EXPECT_EQ(products, 4);
  }
}

TEST(Localise, AMissingKernelIsAnErrorThatListsTheKernelsOfTheOp) {
  Program p;
  p.b.where = "net.cc:4", p.b.path = "fc";
  p.output(build::matmul(p.b, p.input("x", {2, 3}), p.input("w", {3, 4})));
  p.catalog.missing = "matmul";
  try {
    p.localised();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "no kernel supports matmul(f32[2, 3], f32[3, 4]) -> f32[2, 4] of matmul at net.cc:4 (fc); "
                 "no kernel implements 'matmul'");
  }
  Program constant;
  constant.output(build::exp(constant.b, build::full(constant.b, DType::f32, {2}, 3)));
  constant.catalog.missing = "constant";
  try {
    constant.localised();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no kernel supports constant() {value=3.0} -> f32[]; no kernel implements 'constant'");
  }
}

// A catalog whose matmul is fast only with a column-major second operand; if `strict`, it supports no other operands.
class ColumnMajorCatalog : public testing::AnyCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    if (call.op != "matmul") return AnyCatalog::find(call);
    bool columns = call.in[1].strides == Strides{1, call.in[1].shape[0]};
    if (!columns && strict) return std::nullopt;
    return KernelChoice{columns ? "fast.matmul" : "plain.matmul", 0, columns ? 1 : 0.05};
  }
  std::optional<CallSpec> suggest(const CallSpec& call) const override {
    CallSpec best = call;
    if (call.op == "matmul") best.in[1].strides = {1, call.in[1].shape[0]};
    return best;
  }
  bool strict = false;
};

TEST(Localise, AnOperandIsCopiedOnceForKernelsThatRequireDifferentStrides) {
  for (bool strict : {false, true}) {
    Program p;
    ValueId w = p.input("w", {3, 4});
    p.output(build::matmul(p.b, p.input("x", {2, 3}), w));
    p.output(build::matmul(p.b, p.input("z", {5, 3}), w), "again");
    ColumnMajorCatalog columns;
    columns.strict = strict;
    Compilation c = testing::compilation(p.graph);
    c.catalog = &columns;
    run_passes(c, {"shard", "box", "order", "segment", "slots", "layout", "localise"});
    EXPECT_EQ(c.local.copies, 1) << "both products must read the same copy";
    EXPECT_NE(print_calls(c).find("copy(f32[3, 4]) -> f32[3, 4]{1, 3}"), std::string::npos) << print_calls(c);
    for (const LocalCall& call : c.local.segments.back().calls)
      if (call.spec.op == "matmul") { EXPECT_EQ(call.kernel, "fast.matmul"); }
  }
}

}  // namespace
}  // namespace karez::passes
