// Compares the fast rows for copies, rows by index and integers with the plain rows, and tests which calls they leave
// to the plain rows.
#include <gtest/gtest.h>

#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/kernel_bench.h"
#include "karez/kernels/cpu/test_strides.h"

namespace karez::kernels {
namespace {

const KernelTable& table() {
  static const KernelTable all(cpu_kernels());
  return all;
}

CallSpec call_of(std::string op, std::vector<View> in, std::vector<View> out, Attrs attrs = {}) {
  CallSpec call;
  call.op = std::move(op);
  call.in = std::move(in);
  call.out = std::move(out);
  call.attrs = std::move(attrs);
  return call;
}
std::string kernel_of(const CallSpec& call) { return table().find(call)->kernel; }
Attr number(std::int64_t value) { return Attr(value); }

// Expects the same bytes from `row` and the plain row of the call's op, with teams of one, two and three.
void expect_as_plain(CallSpec call, const std::string& row) {
  ASSERT_EQ(kernel_of(call), row) << print(call);
  for (int team : {1, 2, 3}) {
    call.team = team;
    KernelBench fast(table().row(row), call), plain(table().row(cat("plain.", call.op)), call);
    for (KernelBench* bench : {&fast, &plain}) {
      fill_random(*bench, 5);
      bench->run();
    }
    EXPECT_TRUE(same_bits(fast, plain)) << print(call) << ", team of " << team;
  }
}

TEST(FastCopy, CopiesAgreeWithThePlainRowForEveryOrderOfDimensions) {
  for (const DType dtype : {DType::f32, DType::f64, DType::b8})
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{300, 400}, Shape{5, 3, 64, 65}, Shape{2, 1, 40, 900}}) {
      const View row_major_view(dtype, shape);
      expect_as_plain(call_of("copy", {row_major_view}, {row_major_view}), "fast.copy");
      expect_as_plain(call_of("copy", {View(dtype, shape, channels_last(shape))}, {row_major_view}), "fast.copy");
      expect_as_plain(call_of("copy", {row_major_view}, {View(dtype, shape, channels_last(shape))}), "fast.copy");
      expect_as_plain(call_of("copy", {View(dtype, shape, Strides(shape.size(), 0))}, {row_major_view}), "fast.copy");
    }
  expect_as_plain(call_of("copy", {View(DType::f32, {200, 300}, {1, 200})}, {View(DType::f32, {200, 300})}),
                  "fast.copy");
}

TEST(FastCopy, CopiesOfSingleElementsRunOnThePlainRow) {
  EXPECT_EQ(kernel_of(call_of("copy", {View(DType::f32, {8, 8}, {16, 2})}, {View(DType::f32, {8, 8})})), "plain.copy");
  EXPECT_EQ(kernel_of(call_of("copy", {View(DType::f32, {0, 8})}, {View(DType::f32, {0, 8})})), "plain.copy");
}

TEST(FastPad, PaddingOnEverySideAgreesWithThePlainRow) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::b8}) {
    const auto pad = [&](const Shape& shape, const Ints& low, const Ints& high, Attr value, bool channels_last_result) {
      Shape padded = shape;
      for (std::size_t d = 0; d < padded.size(); ++d) padded[d] += low[d] + high[d];
      const View x(dtype, shape),
          y = channels_last_result ? View(dtype, padded, channels_last(padded)) : View(dtype, padded);
      expect_as_plain(call_of("pad", {x}, {y}, {{"low", low}, {"high", high}, {"value", std::move(value)}}),
                      "fast.pad");
    };
    pad({300, 400}, {0, 0}, {300, 0}, number(0), false);
    pad({300, 400}, {1, 2}, {0, 5}, number(1), false);
    pad({4, 3, 64, 65}, {1, 0, 2, 0}, {0, 2, 0, 3}, number(0), true);
    pad({7}, {3}, {0}, number(1), false);
  }
}

TEST(FastPad, GapsAndEmptyInputsRunOnThePlainRow) {
  const Attrs attrs{{"low", Ints{1, 0}}, {"high", Ints{0, 0}}};
  EXPECT_EQ(kernel_of(call_of("pad", {View(DType::f32, {0, 8})}, {View(DType::f32, {1, 8})}, attrs)), "plain.pad");
  EXPECT_EQ(kernel_of(call_of("pad", {View(DType::f32, {2, 8})}, {View(DType::f32, {3, 8}, {9, 1})}, attrs)),
            "plain.pad");
}

TEST(FastRows, ResultsAgreeWithThePlainRowsForLocalAndRemoteIndices) {
  for (const DType index : {DType::i32, DType::i64})
    for (const std::int64_t offset : {0, 2}) {  // indices are 0 to 4: with an offset some rows are on another device
      Attrs attrs{{"offset", number(offset)}, {"limit", number(7)}};
      for (const DType dtype :
           {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8, DType::b8})
        expect_as_plain(
            call_of("gather", {View(dtype, {5, 64}), View(index, {50, 20})}, {View(dtype, {50, 20, 64})}, attrs),
            "fast.gather");
      for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8})
        expect_as_plain(
            call_of("scatter_add", {View(index, {50, 20}), View(dtype, {50, 20, 64})}, {View(dtype, {5, 64})}, attrs),
            "fast.scatter_add");
      expect_as_plain(call_of("one_hot", {View(index, {50, 20})}, {View(DType::f32, {50, 20, 5})}, attrs),
                      "fast.one_hot");
    }
  expect_as_plain(
      call_of("gather", {View(DType::f32, {5, 64}), View(DType::i32, {50, 20})}, {View(DType::f32, {50, 20, 64})}),
      "fast.gather");  // without attributes, the table is complete
}

TEST(FastRows, GapsRunOnThePlainRow) {
  const View index(DType::i32, {4}), gaps(DType::f32, {5, 8}, {9, 1});
  EXPECT_EQ(kernel_of(call_of("gather", {gaps, index}, {View(DType::f32, {4, 8})})), "plain.gather");
  EXPECT_EQ(kernel_of(call_of("scatter_add", {index, View(DType::f32, {4, 8})}, {gaps})), "plain.scatter_add");
  EXPECT_EQ(kernel_of(call_of("one_hot", {index}, {View(DType::f32, {4, 8}, {1, 4})})), "plain.one_hot");
}

TEST(FastResize, EveryAxisOfBytesAndFloatsAgreesWithThePlainRow) {
  const auto compare = [](const char* op, DType dtype, const Shape& shape, std::int64_t axis, std::int64_t size) {
    Shape resized = shape;
    resized[static_cast<std::size_t>(axis)] = size;
    CallSpec call =
        call_of(op, {View(dtype, shape)}, {View(dtype, resized)}, {{"axis", number(axis)}, {"bicubic", size % 2 == 0}});
    ASSERT_EQ(kernel_of(call), cat("fast.", op));
    for (int team : {1, 2, 3}) {
      call.team = team;
      KernelBench fast(table().row(cat("fast.", op)), call), plain(table().row(cat("plain.", op)), call);
      for (KernelBench* bench : {&fast, &plain}) {
        fill_random(*bench, 5);
        bench->run();
      }
      EXPECT_LE(difference(fast.out[0], plain.out[0]), dtype == DType::u8 ? 0 : 1e-5) << print(call) << " " << team;
    }
  };
  for (const Shape& shape : {Shape{2, 40, 35, 3}, Shape{3, 7, 30, 4}, Shape{1, 41, 3, 1}, Shape{2, 5, 300, 7}})
    for (std::int64_t axis = 0; axis < 4; ++axis)
      for (std::int64_t size : {1, 13, 50}) {
        compare("resize", DType::f32, shape, axis, size);
        compare("resize", DType::u8, shape, axis, size);
        compare("resize_grad", DType::f32, shape, axis, size);
      }
  compare("resize", DType::f32, {64, 3000}, 0, 50);  // shared by a team
  compare("resize", DType::u8, {500, 200}, 1, 99);
}

TEST(FastResize, GapsAndOtherTypesRunOnThePlainRow) {
  const Attrs attrs{{"axis", number(0)}};
  EXPECT_EQ(kernel_of(call_of("resize", {View(DType::f64, {4, 8})}, {View(DType::f64, {3, 8})}, attrs)),
            "plain.resize");
  EXPECT_EQ(kernel_of(call_of("resize", {View(DType::f32, {4, 8}, {9, 1})}, {View(DType::f32, {3, 8})}, attrs)),
            "plain.resize");
  EXPECT_EQ(kernel_of(call_of("resize", {View(DType::f32, {4, 0})}, {View(DType::f32, {3, 0})}, attrs)),
            "plain.resize");
}

TEST(FastInteger, SumsDifferencesAndProductsAgreeWithThePlainRow) {
  for (const DType dtype : {DType::i32, DType::i64})
    for (const char* expr : {"x0 + x1", "x0 - x1", "x0 * x1"}) {
      const View dense(dtype, {3, 70}), repeated(dtype, {3, 70}, {0, 0}), scalar(dtype, {});
      for (const auto& in : {std::vector{dense, dense}, {dense, repeated}, {repeated, dense}})
        expect_as_plain(call_of("pointwise", in, {dense}, {{"expr", expr}}), "fast.pointwise_integer");
      expect_as_plain(call_of("pointwise", {scalar, scalar}, {scalar}, {{"expr", expr}}), "fast.pointwise_integer");
    }
  EXPECT_EQ(kernel_of(call_of("pointwise", {View(DType::i64, {3}), View(DType::i64, {3})}, {View(DType::i64, {3})},
                              {{"expr", "x0 / x1"}})),
            "plain.pointwise");
}

TEST(FastInteger, ComparisonsAndSelectionsAgreeWithThePlainRow) {
  for (const DType dtype : {DType::i32, DType::i64})
    for (const char* expr : {"x0 == x1", "x0 != x1", "x0 < x1", "x0 <= x1", "x0 > x1", "x0 >= x1"}) {
      const View dense(dtype, {3, 70}), repeated(dtype, {3, 70}, {0, 0}), scalar(dtype, {});
      const View out(DType::b8, {3, 70}), one(DType::b8, {});
      for (const auto& in : {std::vector{dense, dense}, {dense, repeated}, {repeated, dense}})
        expect_as_plain(call_of("pointwise", in, {out}, {{"expr", expr}}), "fast.pointwise_integer");
      expect_as_plain(call_of("pointwise", {scalar, scalar}, {one}, {{"expr", expr}}), "fast.pointwise_integer");
      const View row(dtype, {3, 70}, {0, 1}), column(dtype, {3, 70}, {1, 0}), gaps(dtype, {3, 70}, {150, 2});
      for (const auto& in : {std::vector{row, column}, {column, row}, {gaps, dense}, {dense, gaps}})
        expect_as_plain(call_of("pointwise", in, {out}, {{"expr", expr}}), "fast.pointwise_integer");
      const View transposed(DType::b8, {3, 70}, {1, 4}), deep(dtype, {3, 5, 7}, {1, 40, 4}), flat(dtype, {3, 5, 7});
      expect_as_plain(call_of("pointwise", {dense, column}, {transposed}, {{"expr", expr}}), "fast.pointwise_integer");
      expect_as_plain(call_of("pointwise", {deep, flat}, {View(DType::b8, {3, 5, 7})}, {{"expr", expr}}),
                      "fast.pointwise_integer");
    }
  for (const DType dtype : {DType::i32, DType::i64}) {
    const View dense(dtype, {3, 70}), repeated(dtype, {3, 70}, {0, 0}), bools(DType::b8, {3, 70});
    const View bool_repeated(DType::b8, {3, 70}, {0, 0});
    for (const auto& in :
         {std::vector{bools, dense, dense}, {bools, repeated, dense}, {bool_repeated, dense, repeated}})
      expect_as_plain(call_of("pointwise", in, {dense}, {{"expr", "select(x0, x1, x2)"}}), "fast.pointwise_integer");
  }
  const View wide(DType::i64, {3}), narrow(DType::i32, {3}), out(DType::b8, {3});
  EXPECT_EQ(kernel_of(call_of("pointwise", {wide, narrow}, {out}, {{"expr", "x0 == x1"}})), "plain.pointwise");
}

TEST(FastMatmul, ATransposedResultIsTheProductOfTheExchangedOperands) {
  const View a(DType::f32, {3, 9, 5}), b(DType::f32, {3, 5, 7}), y(DType::f32, {3, 9, 7}, {63, 1, 9});
  const CallSpec call = call_of("matmul", {a, b}, {y});
  ASSERT_EQ(kernel_of(call), "onednn.matmul");
  KernelBench fast(table().row("onednn.matmul"), call), plain(table().row("plain.matmul"), call);
  for (KernelBench* bench : {&fast, &plain}) {
    fill_random(*bench, 3);
    bench->run();
  }
  EXPECT_LE(difference(fast.out[0], plain.out[0]), 1e-5);
}

}  // namespace
}  // namespace karez::kernels
