// Compares the fast kernels along an axis with the plain rows, bit by bit, and sort and arg_max also with the standard
// library: every dtype, axis and order of dimensions, gaps, NaN, infinities, zeros and ties.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "karez/base/text.h"
#include "karez/device/test_highway.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/kernel_bench.h"
#include "karez/kernels/cpu/test_strides.h"

namespace karez::kernels {
namespace {

const KernelTable& table() {
  static const KernelTable all(cpu_kernels());
  return all;
}
constexpr DType numbers[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8};

CallSpec call_of(std::string op, std::vector<View> in, std::vector<View> out, std::int64_t axis, int team = 1) {
  CallSpec call;
  call.op = std::move(op);
  call.in = std::move(in);
  call.out = std::move(out);
  call.attrs.set("axis", Attr(axis));
  call.team = team;
  return call;
}

// Few different numbers, so that there are ties, and all special values; about one element in `nan_period` is NaN.
void fill_special(Buffer& buffer, unsigned seed, unsigned nan_period = 40) {
  std::mt19937 random(seed);
  for_each_index(buffer.view.shape, [&](const auto& index) {
    with_type(buffer.view.dtype, [&]<class T>() {
      const unsigned r = random();
      T value = static_cast<T>(static_cast<int>(r >> 8) % 23 - 11);
      if constexpr (std::numeric_limits<T>::has_infinity) {
        if (r % nan_period == 0) value = static_cast<T>(r & 256 ? -NAN : NAN);
        if (r % 29 == 1) value = static_cast<T>(r & 256 ? -HUGE_VALF : HUGE_VALF);
        if (r % 13 == 2) value = static_cast<T>(r & 256 ? -0.0f : 0.0f);
        if (r % 17 == 3) value = static_cast<T>(static_cast<float>(static_cast<int>(r)) * 0x1p-20f);
      } else if (!std::is_same_v<T, bool> && r % 17 == 3) {
        value = r & 256 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest();
      }
      buffer.at<T>(index) = value;
    });
  });
}
void fill_index(Buffer& buffer, unsigned seed, std::int64_t size) {
  std::mt19937 random(seed);
  for_each_index(buffer.view.shape, [&](const auto& index) {
    const auto value = static_cast<std::int64_t>(random() % static_cast<unsigned>(size));
    if (buffer.view.dtype == DType::i64) buffer.at<std::int64_t>(index) = value;
    else buffer.at<std::int32_t>(index) = static_cast<std::int32_t>(value);
  });
}

// Returns whether all elements have the same bits or are NaN; the sign of a NaN depends on the order of the operands.
bool same_numbers(Buffer& a, Buffer& b) {
  bool same = true;
  for_each_index(a.view.shape, [&](const auto& index) {
    with_type(a.view.dtype, [&]<class T>() {
      const T &x = a.at<T>(index), &y = b.at<T>(index);
      same &= (x != x && y != y) || std::memcmp(&x, &y, sizeof(T)) == 0;
    });
  });
  return same;
}

// Expects the results of the plain row from `row`. The indices of take_along and add_along are below `index_size`.
void expect_as_plain(const CallSpec& call, const std::string& row, std::int64_t index_size = 1,
                     unsigned nan_period = 40) {
  SCOPED_TRACE(cat(print(call), ", team of ", call.team));
  ASSERT_EQ(table().find(call).value().kernel, row);
  KernelBench fast(table().row(row), call), plain(table().row("plain." + call.op), call);
  for (KernelBench* bench : {&fast, &plain}) {
    for (std::size_t i = 0; i < bench->in.size(); ++i) {
      const bool index = (call.op == "take_along" && i == 1) || (call.op == "add_along" && i == 0);
      if (index) fill_index(bench->in[i], 5, index_size);
      else fill_special(bench->in[i], 7, nan_period);
    }
    bench->run();
    bench->run();  // a kernel is prepared once and run many times
  }
  if (call.op == "arg_max" || call.op == "sort" || call.op == "take_along") EXPECT_TRUE(same_bits(fast, plain));
  else EXPECT_TRUE(same_numbers(fast.out[0], plain.out[0]));
}

Shape without(Shape shape, std::int64_t axis) {
  shape.erase(shape.begin() + axis);
  return shape;
}

// Sizes before and after those of a vector, of a chunk of arg_max, and of a block of cumsum.
const std::vector<Shape> shapes{{1},       {7},       {16},      {17},       {1000},     {4097},      {1, 5},
                                {5, 1},    {33, 20},  {4, 255},  {7, 256},   {9, 257},   {3, 600},    {600, 3},
                                {2, 1025}, {40, 513}, {3, 4, 5}, {2, 3, 70}, {6, 1, 31}, {130, 2, 17}};

TEST(FastAxis, ArgMaxAgreesWithThePlainRowOnEveryInstructionSet) {
  on_every_instruction_set([](const char* name) {
    SCOPED_TRACE(cat("on ", name));
    for (const DType dtype :
         {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8, DType::b8})
      for (const Shape& shape : shapes)
        for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis)
          for (const unsigned nan_period : {40u, 100000u}) {
            const View result(DType::i64, without(shape, axis));
            CallSpec call = call_of("arg_max", {View(dtype, shape)}, {result}, axis);
            if (table().find(call).value().kernel ==
                "plain.arg_max") {  // neither the axis nor its inner neighbour is contiguous
              ASSERT_EQ(shape.size(), 3u);
              ASSERT_EQ(axis, 1);
              continue;
            }
            expect_as_plain(call, "hwy.arg_max", 1, nan_period);
          }
  });
}

TEST(FastAxis, ArgMaxIsTheFirstMaximumOrTheFirstNan) {
  const auto arg_max = [](std::vector<float> x) {
    std::vector<Buffer> in;
    in.push_back(filled<float>(Shape{static_cast<std::int64_t>(x.size())}, x));
    return run_row(table().row("hwy.arg_max"), in, {View(DType::i64, {})}, {{"axis", Attr(std::int64_t{0})}})[0]
        .at<std::int64_t>({});
  };
  for (const std::size_t n : {1u, 2u, 15u, 16u, 17u, 100u, 1023u, 1024u, 1025u, 5000u})
    for (std::size_t at = 0; at < n; at += 1 + n / 7) {
      std::vector<float> x(n, -1.0f);
      EXPECT_EQ(arg_max(x), 0);
      x[at] = 3, x[n - 1] = 3;
      EXPECT_EQ(arg_max(x), static_cast<std::int64_t>(at)) << n;
      x[n / 2] = HUGE_VALF;
      EXPECT_EQ(arg_max(x), static_cast<std::int64_t>(n / 2)) << n;
      x[at] = NAN, x[n - 1] = NAN;
      EXPECT_EQ(arg_max(x), static_cast<std::int64_t>(at)) << n;
    }
  EXPECT_EQ(arg_max(std::vector<float>(40, -HUGE_VALF)), 0);
  EXPECT_EQ(arg_max({-0.0f, 0.0f}), 0);
}

TEST(FastAxis, CumsumAgreesWithThePlainRowOnEveryInstructionSet) {
  on_every_instruction_set([](const char* name) {
    SCOPED_TRACE(cat("on ", name));
    for (const DType dtype : numbers)
      for (const Shape& shape : shapes)
        for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis)
          for (const bool reverse : {false, true})
            for (const unsigned nan_period : {40u, 100000u}) {
              CallSpec call = call_of("cumsum", {View(dtype, shape)}, {View(dtype, shape)}, axis);
              call.attrs.set("reverse", reverse);
              expect_as_plain(call, "hwy.cumsum", 1, nan_period);
            }
  });
}

// Sums of half numbers are rounded once, from f64. The sums 2049 + 2^-24 and 2051 - 2^-24 are so close to midpoints of
// half numbers that rounding to f32 first would give the midpoint.
TEST(FastAxis, CumsumOfHalvesRoundsOnce) {
  std::vector<tensor::F16> x;
  for (int i = 0; i < 500; ++i)
    for (const float term : {2048.0f, 1.0f, 0x1p-24f, -2048.0f, -1.0f, -0x1p-24f}) {
      const float base = i % 2 == 0 ? 0 : std::copysign(2.0f, term), tiny = i % 2 == 0 ? 1 : -1;
      x.emplace_back(std::abs(term) > 1 ? term + base : std::abs(term) < 1 ? term * tiny : term);
    }
  std::vector<Buffer> in;
  in.push_back(filled<tensor::F16>(Shape{3000}, x));
  auto y = run_row(table().row("hwy.cumsum"), in, {View(DType::f16, {3000})}, {{"axis", Attr(std::int64_t{0})}});
  double sum = 0;
  for (std::int64_t i = 0; i < 3000; ++i) {
    sum += static_cast<double>(x[static_cast<std::size_t>(i)]);
    ASSERT_EQ(y[0].at<tensor::F16>({i}).bits, tensor::F16(sum).bits) << i << ", sum " << sum;
  }
}

TEST(FastAxis, TakeAlongAndAddAlongAgreeWithThePlainRows) {
  for (const auto& [index, size] : {std::pair{DType::i32, 1}, {DType::i64, 9}, {DType::i32, 300}})
    for (const DType dtype : numbers)
      for (const Shape& shape : shapes)
        for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
          Shape other = shape;
          other[static_cast<std::size_t>(axis)] = size;
          expect_as_plain(call_of("take_along", {View(dtype, other), View(index, shape)}, {View(dtype, shape)}, axis),
                          "fast.take_along", size);
          expect_as_plain(call_of("add_along", {View(index, shape), View(dtype, shape)}, {View(dtype, other)}, axis),
                          "fast.add_along", size);
        }
}

TEST(FastAxis, IndicesOnOtherDevicesGiveZeros) {
  for (std::int64_t axis : {0, 1}) {
    const Shape shape{40, 33};
    Shape local = shape;
    local[static_cast<std::size_t>(axis)] = 5;
    CallSpec take = call_of("take_along", {View(DType::f32, local), View(DType::i32, shape)}, {View(DType::f32, shape)},
                            axis),
             add = call_of("add_along", {View(DType::i32, shape), View(DType::f32, shape)}, {View(DType::f32, local)},
                           axis);
    for (CallSpec* call : {&take, &add}) {
      call->attrs.set("offset", Attr(std::int64_t{3}));
      call->attrs.set("limit", Attr(std::int64_t{12}));
      expect_as_plain(*call, "fast." + call->op, 12);
    }
  }
}

TEST(FastAxis, AnIndexOutOfRangeIsReportedAndTheNextRunSucceeds) {
  for (const char* op : {"take_along", "add_along"})
    for (const std::int64_t wrong : {std::int64_t{4}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(),
                                     std::numeric_limits<std::int64_t>::max()}) {
      const View index(DType::i64, {3, 50}), updates(DType::f32, {3, 50}), indexed(DType::f32, {3, 4});
      const bool take = std::string(op) == "take_along";
      const CallSpec call =
          take ? call_of(op, {indexed, index}, {updates}, 1) : call_of(op, {index, updates}, {indexed}, 1);
      KernelBench bench(table().row(cat("fast.", op)), call);
      fill_random(bench, 3);
      Buffer& indices = bench.in[take ? 1 : 0];
      fill_index(indices, 3, 4);
      const auto valid = indices.at<std::int64_t>({2, 7});
      indices.at<std::int64_t>({2, 7}) = wrong;
      try {
        bench.run();
        FAIL() << op << " accepts the index " << wrong;
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find(cat(op, ": the index ", wrong, " at [2, 7] is outside 0 to 3")), 0u)
            << error.what();
      }
      indices.at<std::int64_t>({2, 7}) = valid;
      EXPECT_NO_THROW(bench.run());
    }
}

// Returns the order of a slice by definition: NaN is the largest number, and equal elements keep their order.
template <class T> std::vector<std::int64_t> order_of(const std::vector<T>& x, bool descending) {
  std::vector<std::int64_t> order(x.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto rank = [&](std::int64_t i) {
    const T v = x[static_cast<std::size_t>(i)];
    return std::pair(v != v, v != v ? T{} : v);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const auto left = rank(a), right = rank(b);
    const auto less = [](const auto& p, const auto& q) { return p.first != q.first ? !p.first : p.second < q.second; };
    return descending ? less(right, left) : less(left, right);
  });
  return order;
}

TEST(FastAxis, SortAgreesWithTheStandardLibrary) {
  for (const DType dtype : numbers)
    for (const bool descending : {false, true})
      for (const std::int64_t n : {1, 2, 48, 49, 100, 1000, 4095, 4096, 20000})
        for (const std::int64_t first : {n, (n + 1) / 2, (n + 39) / 40}) {
          std::vector<Buffer> in;
          in.emplace_back(View(dtype, {n}));
          fill_special(in[0], static_cast<unsigned>(n));
          auto out = run_row(table().row("fast.sort"), in, {View(dtype, {first}), View(DType::i64, {first})},
                             {{"axis", Attr(std::int64_t{0})}, {"descending", descending}});
          with_type(dtype, [&]<class T>() {
            const std::vector<T> x = logical<T>(in[0]);
            const auto order = order_of(x, descending);
            for (std::int64_t i = 0; i < first; ++i) {
              const std::int64_t at = order[static_cast<std::size_t>(i)];
              ASSERT_EQ(out[1].at<std::int64_t>({i}), at) << dtype << " " << n << " " << first << " " << descending;
              ASSERT_EQ(std::memcmp(&out[0].at<T>({i}), &in[0].at<T>({at}), sizeof(T)), 0)
                  << dtype << " of " << n << " at " << i;
            }
          });
        }
}

TEST(FastAxis, SortAgreesWithThePlainRowForEveryAxisAndTeam) {
  for (const DType dtype : numbers)
    for (const Shape& shape : {Shape{70, 5}, Shape{5, 300}, Shape{3, 60, 4}, Shape{1, 1}, Shape{300, 120}})
      for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis)
        for (const int team : {1, 2, 3}) {
          const View x(dtype, shape);
          expect_as_plain(call_of("sort", {x}, {x, View(DType::i64, shape)}, axis, team), "fast.sort");
        }
}

// Random strides with gaps and teams: the rows that take any strides must support them.
TEST(FastAxis, GapsAndOrdersOfDimensionsAreSupported) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    Shape shape = random_shape(random, 4, 40);
    if (shape.empty() || count_of(shape) == 0) continue;
    const auto axis = static_cast<std::int64_t>(random() % shape.size());
    const DType dtype = numbers[random() % std::size(numbers)], index = random() % 2 ? DType::i32 : DType::i64;
    const int team = 1 + static_cast<int>(random() % 3);
    const View x = random_view(random, dtype, shape), y = random_view(random, dtype, shape),
               i = random_view(random, index, shape), order = random_view(random, DType::i64, shape);
    Shape other = shape;
    other[static_cast<std::size_t>(axis)] = 1 + static_cast<std::int64_t>(random() % 20);
    const std::int64_t size = other[static_cast<std::size_t>(axis)];
    const View z = random_view(random, dtype, other);
    expect_as_plain(call_of("cumsum", {x}, {y}, axis, team), "hwy.cumsum");
    expect_as_plain(call_of("sort", {x}, {y, order}, axis, team), "fast.sort");
    expect_as_plain(call_of("take_along", {z, i}, {y}, axis, team), "fast.take_along", size);
    expect_as_plain(call_of("add_along", {i, x}, {z}, axis, team), "fast.add_along", size);
    const CallSpec arg = call_of("arg_max", {x}, {random_view(random, DType::i64, without(shape, axis))}, axis, team);
    if (table().find(arg).value().kernel != "plain.arg_max") expect_as_plain(arg, "hwy.arg_max");
  }
}

TEST(FastAxis, LargeCallsAreSharedByATeam) {
  for (const int team : {2, 3})
    for (std::int64_t axis : {0, 1}) {
      const View x(DType::f32, {700, 300}), index(DType::i64, x.shape);
      expect_as_plain(call_of("arg_max", {x}, {View(DType::i64, without(x.shape, axis))}, axis, team), "hwy.arg_max");
      expect_as_plain(call_of("cumsum", {x}, {x}, axis, team), "hwy.cumsum");
      expect_as_plain(call_of("take_along", {x, index}, {x}, axis, team), "fast.take_along", 300);
      expect_as_plain(call_of("add_along", {index, x}, {x}, axis, team), "fast.add_along", 300);
    }
}

TEST(FastAxis, EmptyAndUnsupportedCallsRunOnThePlainRow) {
  const auto kernel = [](const CallSpec& call) { return table().find(call).value().kernel; };
  const View empty(DType::f32, {3, 0}), x(DType::f32, {3, 8}), gaps(DType::f32, {3, 8}, {17, 2});
  EXPECT_EQ(kernel(call_of("arg_max", {empty}, {View(DType::i64, {3})}, 1)), "plain.arg_max");
  EXPECT_EQ(kernel(call_of("arg_max", {gaps}, {View(DType::i64, {3})}, 1)), "plain.arg_max");
  EXPECT_EQ(kernel(call_of("cumsum", {empty}, {empty}, 1)), "plain.cumsum");
  EXPECT_EQ(kernel(call_of("sort", {x}, {empty, View(DType::i64, {3, 0})}, 1)), "plain.sort");
  EXPECT_EQ(kernel(call_of("take_along", {x, View(DType::i32, {3, 0})}, {empty}, 1)), "plain.take_along");
  EXPECT_EQ(kernel(call_of("add_along", {View(DType::i32, {3, 0}), empty}, {x}, 1)), "plain.add_along");
}

}  // namespace
}  // namespace karez::kernels
