// Tests of the layout pass for concats, which have many joint choices of the orders of their operands.
#include "karez/passes/lowering/layout.h"

#include <gtest/gtest.h>

#include "karez/passes/lowering/test_layout.h"

namespace karez::passes {
namespace {

using testing::orders_of;
using testing::RatedCatalog;
using Program = testing::LayoutProgram;

// The operands of a concat of n values have 2^n joint choices of orders. With 16 and 60 operands, the chosen orders
// must be the same as with three.
TEST(Layout, AConcatOfManyConvolutionsHasTheSameOrdersAsAConcatOfThree) {
  for (const int groups : {3, 16, 60}) {
    Program p;
    const ValueId w = p.input("w", {4, 8, 3, 3});
    std::vector<ValueId> convolutions;
    for (int g = 0; g < groups; ++g)
      convolutions.push_back(build::conv2d(p.b, p.input(cat("x", g), {2, 8, 16, 16}), w));
    p.output(build::max_pool(p.b, build::concat(p.b, convolutions, 1)).value);
    const std::string orders = orders_of(p.ordered());
    EXPECT_EQ(orders.find("conv2d 0123"), std::string::npos) << groups << " convolutions";
    EXPECT_NE(orders.find("concat 0231"), std::string::npos) << groups << " convolutions\n" << orders;
    EXPECT_NE(orders.find("max_pool 0231"), std::string::npos) << groups << " convolutions";
  }
}

// A catalog whose concat is fast if the operands and the result are all channels-last, or none of them is.
class ConcatCatalog : public RatedCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    auto choice = RatedCatalog::find(call);
    if (call.op == "concat")
      for (const View& v : call.in)
        if (is_last(v) != is_last(call.out[0])) return KernelChoice{"plain.concat", 0, 0.05};
    return choice;
  }
  std::optional<CallSpec> suggest(const CallSpec& call) const override {
    CallSpec last = *RatedCatalog::suggest(call);
    for (auto* views : {&last.in, &last.out})
      for (View& v : *views)
        if (call.op == "concat") v.strides = channels_last(v.shape);
    return last;
  }

 protected:
  static bool is_last(const View& v) { return same_order(v.shape, v.strides, channels_last(v.shape)); }
};

// Changing the order of one operand saves one copy, whatever orders the others have, so no operand may be skipped.
TEST(Layout, EachOfManyOperandsHasTheOrderThatItsReaderPrefers) {
  const ConcatCatalog catalog;
  for (const int operands : {3, 12, 24}) {
    Program p;
    std::vector<ValueId> sums;
    for (int k = 0; k < operands; ++k)
      sums.push_back(build::reduce_sum(p.b, p.input(cat("x", k), {2, 8, 16, 16, 3}), {4}));
    p.output(build::max_pool(p.b, build::concat(p.b, sums, 1)).value);
    Compilation c = p.ordered();
    c.catalog = &catalog;
    const DimensionOrders orders = layout(c.graph, catalog, c.options.costs);
    for (const ValueId v : sums) EXPECT_EQ(orders[v], (Ints{0, 2, 3, 1})) << operands << " operands, %" << v;
  }
}

// A catalog whose concat is fast if all operands are channels-last, slower if none of them is, and otherwise slow.
class AgreeingConcatCatalog : public ConcatCatalog {
 public:
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    if (call.op != "concat") return RatedCatalog::find(call);
    std::size_t last = 0;
    for (const View& v : call.in) last += is_last(v);
    const double rate = last == call.in.size() ? 1 : last == 0 ? 0.8 : 0.05;
    return KernelChoice{"any.concat", 0, rate};
  }
};

// Changing the order of only one of the operands costs a copy, so the best choice is found only if both are changed
// together.
TEST(Layout, OrdersOfOperandsThatOnlyTogetherSaveTimeAreChosenTogether) {
  const AgreeingConcatCatalog catalog;
  Program p;
  std::vector<ValueId> sums;
  for (int k = 0; k < 2; ++k) sums.push_back(build::reduce_sum(p.b, p.input(cat("x", k), {8, 64, 64, 64, 3}), {4}));
  p.output(build::concat(p.b, sums, 1));
  Compilation c = p.ordered();
  c.catalog = &catalog;
  const DimensionOrders orders = layout(c.graph, catalog, c.options.costs);
  for (const ValueId v : sums) EXPECT_EQ(orders[v], (Ints{0, 2, 3, 1})) << orders_text(c.graph, orders);
}

}  // namespace
}  // namespace karez::passes
