// Compares plain kernels with values computed by hand: products, convolution, pooling, reductions, rows by index,
// updates.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "karez/kernels/cpu/kernel_buffer.h"

namespace karez::kernels {
namespace {

using f32s = std::vector<float>;
using f64s = std::vector<double>;
using i32s = std::vector<std::int32_t>;
using i64s = std::vector<std::int64_t>;

View f32(Shape shape) { return View(DType::f32, std::move(shape)); }
View f64(Shape shape) { return View(DType::f64, std::move(shape)); }
Attr integer(std::int64_t value) { return Attr(value); }
Attrs window(Ints kernel, Ints stride, Ints padding) {
  return {{"kernel", kernel}, {"stride", stride}, {"padding", padding}};
}

TEST(Matmul, AMatrixProductIsRowsTimesColumns) {
  auto out = run_plain("matmul", {filled<float>({2, 2}, {1, 2, 3, 4}), filled<float>({2, 1}, {10, 1})}, {f32({2, 1})});
  EXPECT_EQ(logical<float>(out[0]), (f32s{12, 34}));
  out = run_plain("matmul", {filled<float>({2, 2}, {1, 2, 3, 4}), filled<float>({1, 2}, {10, 1})}, {f32({2, 1})},
                  {{"transpose_a", true}, {"transpose_b", true}});
  EXPECT_EQ(logical<float>(out[0]), (f32s{13, 24}));
}

TEST(Matmul, BatchesIntegersBiasAndReluAreSupported) {
  auto out = run_plain("matmul", {filled<std::int32_t>({2, 1, 1}, {2, 3}), filled<std::int32_t>({2, 1, 1}, {5, 7})},
                       {View(DType::i32, {2, 1, 1})});
  EXPECT_EQ(logical<std::int32_t>(out[0]), (i32s{10, 21}));
  auto fused =
      run_plain("matmul", {filled<float>({1, 1}, {2}), filled<float>({1, 2}, {3, -3}), filled<float>({2}, {1, 1})},
                {f32({1, 2})}, {{"bias", true}, {"relu", true}});
  EXPECT_EQ(logical<float>(fused[0]), (f32s{7, 0}));
}

TEST(Matmul, AnEmptyInnerSizeGivesZeros) {
  auto out = run_plain("matmul", {filled<float>({2, 0}, {}), filled<float>({0, 2}, {})}, {f32({2, 2})});
  EXPECT_EQ(logical<float>(out[0]), (f32s{0, 0, 0, 0}));
}

TEST(Matmul, SizesThatDoNotMatchAreAnError) {
  EXPECT_THROW(run_plain("matmul", {filled<float>({1, 2}, {1, 2}), filled<float>({1, 1}, {1})}, {f32({1, 1})}), Error);
}

TEST(PlainRows, OperandsMustHaveOneType) {
  const KernelTable table(plain_kernels());
  auto is_supported = [&](const std::string& op, std::vector<View> in, std::vector<View> out, Attrs attrs = {}) {
    CallSpec call;
    call.op = op, call.in = std::move(in), call.out = std::move(out), call.attrs = std::move(attrs);
    return table.row("plain." + op).supports(call);
  };
  auto conv = [&](DType x, DType w, DType y) {
    return is_supported("conv2d", {View(x, {1, 1, 3, 3}), View(w, {1, 1, 2, 2})}, {View(y, {1, 1, 2, 2})});
  };
  EXPECT_TRUE(conv(DType::f64, DType::f64, DType::f64));
  EXPECT_TRUE(conv(DType::f16, DType::f16, DType::f32));
  EXPECT_FALSE(conv(DType::f32, DType::f64, DType::f32));
  EXPECT_FALSE(conv(DType::f32, DType::f32, DType::f64));
  EXPECT_FALSE(conv(DType::f16, DType::f32, DType::f32));
  EXPECT_FALSE(conv(DType::i32, DType::i32, DType::i32));
  const std::vector<View> in = {f32({4}), f32({4}), f32({4}), f32({})}, out = {f32({4}), f32({4})};
  EXPECT_TRUE(is_supported("sgd", in, out, {{"momentum", 0.9}}));
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::vector<View> mixed = in;
    mixed[i].dtype = DType::f64;
    EXPECT_FALSE(is_supported("sgd", mixed, out, {{"momentum", 0.9}})) << "operand " << i;
  }
  EXPECT_FALSE(is_supported("sgd", in, {f32({4}), f64({4})}, {{"momentum", 0.9}}));
}

TEST(Conv2d, StridePaddingAndDilationAreApplied) {
  const Attrs same{{"stride", Ints{1, 1}}, {"padding", Ints{1, 1}}, {"dilation", Ints{1, 1}}};
  auto out = run_plain("conv2d", {filled<float>({1, 1, 2, 2}, {1, 2, 3, 4}), filled<float>({1, 1, 3, 3}, f32s(9, 1))},
                       {f32({1, 1, 2, 2})}, same);
  EXPECT_EQ(logical<float>(out[0]), (f32s{10, 10, 10, 10}));
  const Attrs wide{
      {"stride", Ints{2, 1}}, {"padding", Ints{0, 0}}, {"dilation", Ints{1, 2}}};  // taps (0, 0) and (0, 2)
  out = run_plain("conv2d", {filled<float>({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}), filled<float>({1, 1, 1, 2}, {10, 1})},
                  {f32({1, 1, 1, 1})}, wide);
  EXPECT_EQ(logical<float>(out[0]), (f32s{13}));
}

TEST(Conv2d, ChannelsAreSummedAndBiasIsAddedBeforeRelu) {
  auto out = run_plain(
      "conv2d",
      {filled<float>({1, 2, 1, 1}, {1, 2}), filled<float>({2, 2, 1, 1}, {3, 4, -3, -4}), filled<float>({2}, {1, 1})},
      {f32({1, 2, 1, 1})}, {{"bias", true}, {"relu", true}});
  EXPECT_EQ(logical<float>(out[0]), (f32s{12, 0}));
}

TEST(Conv2d, GradientsAreSumsOverTheTaps) {
  // y = [x0 a + x1 b, x1 a + x2 b]
  auto dx = run_plain("conv2d_grad_input", {filled<float>({1, 1, 1, 2}, {1, 10}), filled<float>({1, 1, 1, 2}, {2, 3})},
                      {f32({1, 1, 1, 3})});
  EXPECT_EQ(logical<float>(dx[0]), (f32s{2, 23, 30}));
  auto dw =
      run_plain("conv2d_grad_weight", {filled<float>({1, 1, 1, 3}, {5, 6, 7}), filled<float>({1, 1, 1, 2}, {1, 10})},
                {f32({1, 1, 1, 2})}, {{"kernel", Ints{1, 2}}});
  EXPECT_EQ(logical<float>(dw[0]), (f32s{65, 76}));
}

TEST(Conv2d, ChannelsAndBatchesMayBeEmpty) {
  auto out =
      run_plain("conv2d", {filled<float>({1, 0, 1, 1}, {}), filled<float>({2, 0, 1, 1}, {})}, {f32({1, 2, 1, 1})});
  EXPECT_EQ(logical<float>(out[0]), (f32s{0, 0}));
  auto dw = run_plain("conv2d_grad_weight", {filled<float>({0, 1, 2, 2}, {}), filled<float>({0, 1, 2, 2}, {})},
                      {f32({1, 1, 1, 1})}, {{"kernel", Ints{1, 1}}});
  EXPECT_EQ(logical<float>(dw[0]), (f32s{0}));
}

TEST(MaxPool, TheFirstMaximumAndItsIndexAreReturned) {
  auto out = run_plain("max_pool", {filled<float>({1, 1, 2, 4}, {1, 5, 7, 7, 5, 2, 7, 7})},
                       {f32({1, 1, 1, 2}), View(DType::i32, {1, 1, 1, 2})}, window({2, 2}, {2, 2}, {0, 0}));
  EXPECT_EQ(logical<float>(out[0]), (f32s{5, 7}));
  EXPECT_EQ(logical<std::int32_t>(out[1]), (i32s{1, 0}));
}

TEST(MaxPool, PaddingIsNeverTheMaximumAndNanAlwaysIsTheMaximum) {
  auto out = run_plain("max_pool", {filled<float>({1, 1, 1, 2}, {-3, -2})},
                       {f32({1, 1, 1, 2}), View(DType::i32, {1, 1, 1, 2})}, window({1, 3}, {1, 1}, {0, 1}));
  EXPECT_EQ(logical<float>(out[0]), (f32s{-2, -2}));
  EXPECT_EQ(logical<std::int32_t>(out[1]), (i32s{2, 1}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  out = run_plain("max_pool", {filled<float>({1, 1, 1, 3}, {1, nan, 9})},
                  {f32({1, 1, 1, 1}), View(DType::i32, {1, 1, 1, 1})}, window({1, 3}, {1, 1}, {0, 0}));
  EXPECT_TRUE(std::isnan(logical<float>(out[0])[0]));
  EXPECT_EQ(logical<std::int32_t>(out[1]), (i32s{1}));
}

TEST(MaxPool, GradientsAreAddedAtTheMaxima) {
  // Windows {0, 1} and {1, 2}: both have their maximum at pixel 1.
  auto out =
      run_plain("max_pool_grad", {filled<float>({1, 1, 1, 2}, {10, 100}), filled<std::int32_t>({1, 1, 1, 2}, {1, 0})},
                {f32({1, 1, 1, 3})}, window({1, 2}, {1, 1}, {0, 0}));
  EXPECT_EQ(logical<float>(out[0]), (f32s{0, 110, 0}));
}

TEST(AvgPool, PaddingCountsAsZeros) {
  auto out =
      run_plain("avg_pool", {filled<float>({1, 1, 1, 2}, {4, 8})}, {f32({1, 1, 1, 2})}, window({1, 2}, {1, 2}, {0, 1}));
  EXPECT_EQ(logical<float>(out[0]), (f32s{2, 4}));
  auto dx = run_plain("avg_pool_grad", {filled<float>({1, 1, 1, 2}, {2, 6})}, {f32({1, 1, 1, 3})},
                      window({1, 2}, {1, 1}, {0, 0}));
  EXPECT_EQ(logical<float>(dx[0]), (f32s{1, 4, 3}));
}

TEST(Reduce, SumsMaximaAndMinimaAreTakenOverTheAxes) {
  const std::vector<Buffer> x = {filled<float>({2, 3}, {1, 5, 3, 4, 2, 6})};
  EXPECT_EQ(logical<float>(run_plain("reduce_sum", x, {f32({3})}, {{"axes", Ints{0}}})[0]), (f32s{5, 7, 9}));
  EXPECT_EQ(logical<float>(run_plain("reduce_max", x, {f32({2})}, {{"axes", Ints{1}}})[0]), (f32s{5, 6}));
  EXPECT_EQ(logical<float>(run_plain("reduce_min", x, {f32({})}, {{"axes", Ints{0, 1}}})[0]), (f32s{1}));
  EXPECT_EQ(logical<float>(run_plain("reduce_sum", x, {f32({2, 3})}, {{"axes", Ints{}}})[0]), (f32s{1, 5, 3, 4, 2, 6}));
}

TEST(Reduce, AReductionOfNoElementsGivesTheIdentity) {
  const std::vector<Buffer> x = {filled<float>({0, 1}, {})};
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(logical<float>(run_plain("reduce_sum", x, {f32({1})}, {{"axes", Ints{0}}})[0]), (f32s{0}));
  EXPECT_EQ(logical<float>(run_plain("reduce_max", x, {f32({1})}, {{"axes", Ints{0}}})[0]), (f32s{-inf}));
  EXPECT_EQ(logical<float>(run_plain("reduce_min", x, {f32({1})}, {{"axes", Ints{0}}})[0]), (f32s{inf}));
  const std::vector<Buffer> i = {filled<std::int32_t>({0}, {})};
  EXPECT_EQ(logical<std::int32_t>(run_plain("reduce_max", i, {View(DType::i32, {})}, {{"axes", Ints{0}}})[0]),
            (i32s{std::numeric_limits<std::int32_t>::min()}));
}

TEST(Reduce, SumsOfF32AreAccumulatedInDoubleAndIntegersWrapAround) {
  std::vector<float> values(1 << 16, 0.1f);
  auto out = run_plain("reduce_sum", {filled<float>({1 << 16}, values)}, {f32({})}, {{"axes", Ints{0}}});
  EXPECT_EQ(logical<float>(out[0])[0], static_cast<float>(65536 * static_cast<double>(0.1f)));
  const auto max_int = std::numeric_limits<std::int32_t>::max();
  auto wrapped =
      run_plain("reduce_sum", {filled<std::int32_t>({2}, {max_int, 1})}, {View(DType::i32, {})}, {{"axes", Ints{0}}});
  EXPECT_EQ(logical<std::int32_t>(wrapped[0]), (i32s{std::numeric_limits<std::int32_t>::min()}));
}

TEST(Reduce, MaximaOfBoolsAreOrAndMinimaAreAnd) {
  const std::vector<Buffer> x = {filled<bool>({2, 2}, {true, false, true, true})};
  EXPECT_EQ(logical<bool>(run_plain("reduce_max", x, {View(DType::b8, {2})}, {{"axes", Ints{1}}})[0]),
            (std::vector<bool>{true, true}));
  EXPECT_EQ(logical<bool>(run_plain("reduce_min", x, {View(DType::b8, {2})}, {{"axes", Ints{1}}})[0]),
            (std::vector<bool>{false, true}));
}

TEST(ArgMax, TheFirstMaximumIsChosen) {
  auto out = run_plain("arg_max", {filled<float>({2, 3}, {1, 7, 7, -1, -5, -1})}, {View(DType::i64, {2})},
                       {{"axis", integer(1)}});
  EXPECT_EQ(logical<std::int64_t>(out[0]), (i64s{1, 0}));
}

// Returns the text of the error that the body throws, or "".
template <class Body> std::string error_of(Body&& body) {
  try {
    body();
    return "";
  } catch (const Error& e) { return e.what(); }
}

TEST(Gather, RowsOutsideTheLocalTableAreZero) {
  auto out = run_plain("gather", {filled<float>({2, 2}, {1, 2, 3, 4}), filled<std::int64_t>({4}, {5, 4, 3, 6})},
                       {f32({4, 2})}, {{"offset", integer(4)}, {"limit", integer(7)}});
  EXPECT_EQ(logical<float>(out[0]), (f32s{3, 4, 1, 2, 0, 0, 0, 0}));
}

// The error reports the position in the logical index and the size of the logical table, even if a device holds only a
// part of them. It is reported for the first invalid index in logical order.
TEST(Gather, AnIndexOutsideTheLogicalTableIsAnErrorWithItsPosition) {
  constexpr std::int64_t min_index = std::numeric_limits<std::int64_t>::min();
  const Buffer table = filled<float>({2, 2}, {1, 2, 3, 4});
  const auto gather = [&](std::vector<std::int64_t> index, const Attrs& attrs) {
    return error_of([&] {
      run_plain("gather", {table, filled<std::int64_t>({2, 2}, index)}, {f32({2, 2, 2})}, attrs);
    });
  };
  EXPECT_EQ(gather({0, 1, 0, 1}, {}), "");
  EXPECT_EQ(gather({0, 1, 2, 7}, {}), "gather: the index 2 at [1, 0] is outside 0 to 1");
  EXPECT_EQ(gather({0, -1, 0, 1}, {}), "gather: the index -1 at [0, 1] is outside 0 to 1");
  const Attrs part{{"offset", integer(3)}, {"limit", integer(6)}, {"begin", Ints{10, 20}}};
  EXPECT_EQ(gather({0, 5, 2, 4}, part), "");
  EXPECT_EQ(gather({0, 5, 2, 6}, part), "gather: the index 6 at [11, 21] is outside 0 to 5");
  EXPECT_EQ(gather({min_index, 5, 2, 6}, part), cat("gather: the index ", min_index, " at [10, 20] is outside 0 to 5"));
  EXPECT_EQ(error_of([&] {
              run_plain("gather", {filled<float>({0}, {}), filled<std::int32_t>({1}, {0})}, {f32({1})});
            }),
            "gather: the index 0 at [0] is outside an empty table");
}

TEST(ScatterAdd, UpdatesOfEqualIndicesAreAddedAndRemoteIndicesAreIgnored) {
  auto out =
      run_plain("scatter_add", {filled<std::int32_t>({3}, {1, 1, 9}), filled<float>({3, 2}, {1, 2, 10, 20, 100, 200})},
                {f32({2, 2})}, {{"rows", integer(2)}, {"offset", integer(0)}, {"limit", integer(10)}});
  EXPECT_EQ(logical<float>(out[0]), (f32s{0, 0, 11, 22}));
  const auto add = [](std::int32_t index) {
    run_plain("scatter_add", {filled<std::int32_t>({1}, {index}), filled<float>({1}, {1})}, {f32({2})},
              {{"rows", integer(2)}, {"begin", Ints{4}}});
  };
  EXPECT_EQ(error_of([&] { add(2); }), "scatter_add: the index 2 at [4] is outside 0 to 1");
  EXPECT_EQ(error_of([&] { add(-1); }), "scatter_add: the index -1 at [4] is outside 0 to 1");
}

TEST(Cumsum, SumsRunForwardOrBackwardAndWrapAround) {
  const Attrs reverse{{"axis", integer(0)}, {"reverse", true}};
  EXPECT_EQ(logical<float>(
                run_plain("cumsum", {filled<float>({2, 2}, {1, 2, 10, 20})}, {f32({2, 2})}, {{"axis", integer(0)}})[0]),
            (f32s{1, 2, 11, 22}));
  EXPECT_EQ(logical<float>(run_plain("cumsum", {filled<float>({2, 2}, {1, 2, 10, 20})}, {f32({2, 2})}, reverse)[0]),
            (f32s{11, 22, 10, 20}));
  auto wraps = run_plain("cumsum", {filled<std::int32_t>({3}, {2147483647, 1, 5})}, {View(DType::i32, {3})},
                         {{"axis", integer(0)}});
  EXPECT_EQ(logical<std::int32_t>(wraps[0]), (std::vector<std::int32_t>{2147483647, -2147483648, -2147483643}));
  // In f32, 2^24 + 1 + 1 would be 2^24.
  EXPECT_EQ(logical<float>(
                run_plain("cumsum", {filled<float>({3}, {16777216, 1, 1})}, {f32({3})}, {{"axis", integer(0)}})[0]),
            (f32s{16777216, 16777216, 16777218}));
}

TEST(Sort, EqualElementsKeepTheirOrderAndNanIsLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Buffer x = filled<float>({8}, {2, nan, -inf, 0, -0.f, 2, inf, nan});
  const auto indices = [&](const Attrs& attrs, std::int64_t first) {
    return logical<std::int64_t>(run_plain("sort", {x}, {f32({first}), View(DType::i64, {first})}, attrs)[1]);
  };
  const Attrs up{{"axis", integer(0)}}, down{{"axis", integer(0)}, {"descending", true}};
  EXPECT_EQ(indices(up, 8), (i64s{2, 3, 4, 0, 5, 6, 1, 7}));
  EXPECT_EQ(indices(down, 8), (i64s{1, 7, 6, 0, 5, 3, 4, 2}));
  EXPECT_EQ(indices(Attrs(up).set("first", integer(4)), 4), (i64s{2, 3, 4, 0}));
  EXPECT_EQ(indices(Attrs(down).set("first", integer(5)), 5), (i64s{1, 7, 6, 0, 5}));
  auto rows = run_plain("sort", {filled<std::int64_t>({2, 3}, {3, 1, 2, -1, -1, -9})},
                        {View(DType::i64, {2, 3}), View(DType::i64, {2, 3})}, {{"axis", integer(1)}});
  EXPECT_EQ(logical<std::int64_t>(rows[0]), (i64s{1, 2, 3, -9, -1, -1}));
  EXPECT_EQ(logical<std::int64_t>(rows[1]), (i64s{1, 2, 0, 2, 0, 1}));
}

TEST(Along, ElementsAreTakenAndAddedByIndexAndRemoteIndicesAreIgnored) {
  const Attrs local{{"axis", integer(1)}, {"offset", integer(4)}, {"limit", integer(7)}};
  auto taken =
      run_plain("take_along", {filled<float>({2, 2}, {1, 2, 3, 4}), filled<std::int64_t>({2, 3}, {5, 4, 3, 4, 4, 6})},
                {f32({2, 3})}, local);
  EXPECT_EQ(logical<float>(taken[0]), (f32s{2, 1, 0, 3, 3, 0}));
  auto added = run_plain(
      "add_along", {filled<std::int32_t>({2, 3}, {5, 4, 3, 4, 4, 6}), filled<float>({2, 3}, {1, 2, 4, 8, 16, 32})},
      {f32({2, 2})}, Attrs(local).set("size", integer(2)));
  EXPECT_EQ(logical<float>(added[0]), (f32s{2, 1, 24, 0}));
  const auto take = [](std::int64_t index) {
    return error_of([&] {
      run_plain("take_along", {filled<float>({2, 2}, {1, 2, 3, 4}), filled<std::int64_t>({2, 1}, {0, index})},
                {f32({2, 1})}, {{"axis", integer(1)}, {"begin", Ints{3, 0}}});
    });
  };
  EXPECT_EQ(take(1), "");
  EXPECT_EQ(take(2), "take_along: the index 2 at [4, 0] is outside 0 to 1");
  EXPECT_EQ(take(-1), "take_along: the index -1 at [4, 0] is outside 0 to 1");
}

TEST(OneHot, ARemoteIndexGivesZeros) {
  auto out = run_plain("one_hot", {filled<std::int32_t>({3}, {3, 2, 1})}, {f32({3, 2})},
                       {{"depth", integer(2)}, {"offset", integer(2)}, {"limit", integer(4)}});
  EXPECT_EQ(logical<float>(out[0]), (f32s{0, 1, 1, 0, 0, 0}));
  const auto error_for = [](std::int64_t index, Attrs attrs) {
    return error_of([&] {
      run_plain("one_hot", {filled<std::int64_t>({2}, {0, index})}, {f32({2, 2})}, attrs.set("depth", integer(2)));
    });
  };
  EXPECT_EQ(error_for(1, {}), "");
  EXPECT_EQ(error_for(2, {}), "one_hot: the index 2 at [1] is outside 0 to 1");
  EXPECT_EQ(error_for(-100, {{"offset", integer(2)},
                             {"limit", integer(5)},
                             {"begin", Ints{8}},
                             {"of", std::string("cross_entropy's label")}}),
            "one_hot: cross_entropy's label -100 at [9] is outside 0 to 4");
}

TEST(Sgd, MomentumAndWeightDecayAreApplied) {
  // g = 2 + 0.5 * 1; m' = 0.9 * 4 + g; w' = 1 - 0.1 * m'.
  const std::vector<Buffer> in = {filled<double>({1}, {1}), filled<double>({1}, {4}), filled<double>({1}, {2}),
                                  filled<double>(Shape{}, {0.1})};
  auto out = run_plain("sgd", in, {f64({1}), f64({1})}, {{"momentum", 0.9}, {"weight_decay", 0.5}});
  EXPECT_DOUBLE_EQ(logical<double>(out[1])[0], 6.1);
  EXPECT_DOUBLE_EQ(logical<double>(out[0])[0], 0.39);
  out = run_plain("sgd", in, {f64({1}), f64({1})}, {{"momentum", 0.9}, {"nesterov", true}});
  EXPECT_DOUBLE_EQ(logical<double>(out[0])[0], 1 - 0.1 * (2 + 0.9 * (3.6 + 2)));
}

TEST(Adam, TheFirstStepMovesEachWeightByTheLearningRate) {
  const std::vector<Buffer> in = {filled<double>({2}, {1, 1}),     filled<double>({2}, {0, 0}),
                                  filled<double>({2}, {0, 0}),     filled<double>({2}, {3, -3}),
                                  filled<double>(Shape{}, {0.01}), filled<std::int64_t>(Shape{}, {1})};
  auto out = run_plain("adam", in, {f64({2}), f64({2}), f64({2})}, {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 0.0}});
  EXPECT_NEAR(logical<double>(out[0])[0], 0.99, 1e-14);
  EXPECT_NEAR(logical<double>(out[0])[1], 1.01, 1e-14);
  EXPECT_NEAR(logical<double>(out[1])[0], 0.3, 1e-14);
  EXPECT_NEAR(logical<double>(out[2])[0], 0.009, 1e-14);
}

TEST(Adam, OneCallUpdatesTwoTensorsInPlace) {
  const KernelRow row = KernelTable(plain_kernels()).row("plain.adam");
  CallSpec call;
  call.op = "adam";
  call.attrs = {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 0.0}, {"weight_decay", 0.1}, {"decoupled", true}};
  const View weight_view = f64({1}), scalar = f64({});
  call.in = {weight_view, weight_view, weight_view, weight_view, weight_view,
             weight_view, weight_view, weight_view, scalar,      View(DType::i64, {})};
  call.out = {weight_view, weight_view, weight_view, weight_view, weight_view, weight_view};
  ASSERT_TRUE(row.supports(call));
  double w0 = 1, m0 = 0, v0 = 0, g0 = 2, w1 = 2, m1 = 0, v1 = 0, g1 = -2, lr = 0.1;
  std::int64_t step = 1;
  const auto at = [](auto& value) { return reinterpret_cast<std::byte*>(&value); };
  std::byte* in[] = {at(w0), at(m0), at(v0), at(g0), at(w1), at(m1), at(v1), at(g1), at(lr), at(step)};
  std::byte* out[] = {at(w0), at(m0), at(v0), at(w1), at(m1), at(v1)};
  row.prepare(call)({in, out, nullptr});
  EXPECT_NEAR(w0, 1 * (1 - 0.01) - 0.1, 1e-14);
  EXPECT_NEAR(w1, 2 * (1 - 0.01) + 0.1, 1e-14);
}

// An update that is not applied preserves every bit, even of a NaN, for any gradient.
TEST(ConditionalUpdate, AnUpdateThatIsNotAppliedKeepsEveryBit) {
  const double nan = std::nan("7"), inf = std::numeric_limits<double>::infinity();
  const std::vector<double> w{1, nan, -0.0}, m{0.5, 2, nan}, v{3, inf, 0}, g{nan, inf, 1};
  for (const bool apply : {false, true})
    for (const char* op : {"sgd", "adam"}) {
      const bool adam = std::string(op) == "adam";
      std::vector<Buffer> in{filled<double>({3}, w), filled<double>({3}, m)};
      if (adam) in.push_back(filled<double>({3}, v));
      in.push_back(filled<double>({3}, g));
      in.push_back(filled<double>(Shape{}, {0.1}));
      if (adam) in.push_back(filled<std::int64_t>(Shape{}, {1}));
      const std::vector<View> out(adam ? 3 : 2, f64({3}));
      const Attrs attrs = adam ? Attrs{{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}} : Attrs{{"momentum", 0.9}};
      const auto step = run_plain(op, in, out, attrs);
      in.push_back(filled<bool>(Shape{}, {apply}));
      const auto results = run_plain(cat(op, "_if"), in, out, attrs);
      for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(results[i].bytes, apply ? step[i].bytes : in[i].bytes)
            << op << (apply ? ", applied" : ", not applied") << ", state " << i;
    }
}

}  // namespace
}  // namespace karez::kernels
