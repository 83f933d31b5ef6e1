// Tests that plain kernels give the same bits for random and row-major strides, support empty operands and allocate no
// memory. tests/kernel_strides_test.cc covers the strides of every op.
#include <gtest/gtest.h>

#include <random>

#include "karez/kernels/cpu/kernel_buffer.h"
#include "karez/kernels/cpu/test_allocations.h"
#include "karez/kernels/cpu/test_strides.h"

namespace karez::kernels {
namespace {

struct Case {
  std::string op;
  std::vector<TensorType> in, out;
  Attrs attrs = {};
};
constexpr auto f = DType::f32;
constexpr auto d = DType::f64;
constexpr auto i = DType::i32;
constexpr auto l = DType::i64;
constexpr auto b = DType::b8;
Attr integer(std::int64_t value) { return Attr(value); }
const Attrs conv = {{"stride", Ints{2, 1}}, {"padding", Ints{1, 0}}, {"dilation", Ints{1, 2}}, {"kernel", Ints{3, 2}}};
const Attrs pool = {{"stride", Ints{2, 1}}, {"padding", Ints{1, 0}}, {"kernel", Ints{3, 2}}};
const Attrs rates = {{"momentum", 0.9}, {"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}};

// x is [n, c, 5, 4], whose windows of 3 x 2 give [3, 2] (dilated) or [3, 3].
std::vector<Case> cases(std::int64_t n, std::int64_t c) {
  const Attrs axis1{{"axis", integer(1)}};
  return {
      {"constant", {}, {{f, {n, c}}}, {{"value", 2.5}}},
      {"iota", {}, {{l, {n, c, 2}}}, axis1},
      {"random_uniform", {{l, {2}}}, {{d, {n, c}}}, {{"site", integer(1)}}},
      {"pointwise",
       {{f, {n, c, 3}}, {f, {n, c, 3}}, {b, {n, c, 3}}},
       {{f, {n, c, 3}}},
       {{"expr", std::string("select(x2, x0 * x1, x0 - 1)")}}},
      {"pointwise", {{i, {n, c}}, {i, {n, c}}}, {{b, {n, c}}}, {{"expr", std::string("x0 < x1")}}},
      {"cast", {{f, {n, c, 3}}}, {{l, {n, c, 3}}}},
      {"copy", {{d, {n, c, 5, 4}}}, {{d, {n, c, 5, 4}}}},
      {"reshape", {{f, {n, c, 5, 4}}}, {{f, {n, c * 20}}}},
      {"transpose", {{f, {n, c, 3}}}, {{f, {3, n, c}}}, {{"perm", Ints{2, 0, 1}}}},
      {"slice", {{i, {n, c, 5}}}, {{i, {n, c, 2}}}, {{"begin", Ints{0, 0, 2}}}},
      {"broadcast", {{f, {n, c}}}, {{f, {n, 3, c, 2}}}, {{"dims", Ints{0, 2}}}},
      {"concat", {{f, {n, c}}, {f, {n, 2}}}, {{f, {n, c + 2}}}, axis1},
      {"pad", {{f, {n, c}}}, {{f, {n + 3, c + 1}}}, {{"low", Ints{1, 0}}, {"high", Ints{2, 1}}, {"value", 1.5}}},
      {"matmul", {{f, {n, c}}, {f, {c, 70}}, {f, {70}}}, {{f, {n, 70}}}, {{"bias", true}, {"relu", true}}},
      {"matmul", {{d, {2, c, n}}, {d, {2, 5, c}}}, {{d, {2, n, 5}}}, {{"transpose_a", true}, {"transpose_b", true}}},
      {"matmul", {{l, {n, c}}, {l, {c, n}}}, {{l, {n, n}}}},
      {"conv2d", {{f, {n, c, 5, 4}}, {f, {6, c, 3, 2}}, {f, {6}}}, {{f, {n, 6, 3, 2}}}, Attrs(conv).set("bias", true)},
      {"conv2d",
       {{f, {n, 2 * c, 5, 4}}, {f, {6, c, 3, 2}}},
       {{f, {n, 6, 3, 2}}},
       Attrs(conv).set("groups", integer(2))},
      {"conv2d_grad_input",
       {{f, {n, 6, 3, 2}}, {f, {6, c, 3, 2}}},
       {{f, {n, 2 * c, 5, 4}}},
       Attrs(conv).set("groups", integer(2))},
      {"conv2d_grad_weight",
       {{d, {n, 2 * c, 5, 4}}, {d, {n, 6, 3, 2}}},
       {{d, {6, c, 3, 2}}},
       Attrs(conv).set("groups", integer(2))},
      {"conv2d_grad_input", {{f, {n, 6, 3, 2}}, {f, {6, c, 3, 2}}}, {{f, {n, c, 5, 4}}}, conv},
      {"conv2d_grad_weight", {{d, {n, c, 5, 4}}, {d, {n, 6, 3, 2}}}, {{d, {6, c, 3, 2}}}, conv},
      {"max_pool", {{f, {n, c, 5, 4}}}, {{f, {n, c, 3, 3}}, {i, {n, c, 3, 3}}}, pool},
      {"max_pool_grad", {{f, {n, c, 3, 3}}, {i, {n, c, 3, 3}}}, {{f, {n, c, 5, 4}}}, pool},
      {"avg_pool", {{f, {n, c, 5, 4}}}, {{f, {n, c, 3, 3}}}, pool},
      {"avg_pool_grad", {{f, {n, c, 3, 3}}}, {{f, {n, c, 5, 4}}}, pool},
      {"reduce_sum", {{f, {n, c, 5, 4}}}, {{f, {c}}}, {{"axes", Ints{0, 2, 3}}}},
      {"reduce_max", {{l, {n, c, 3}}}, {{l, {n}}}, {{"axes", Ints{1, 2}}}},
      {"reduce_min", {{b, {n, c, 3}}}, {{b, {3}}}, {{"axes", Ints{0, 1}}}},
      {"arg_max", {{f, {n, c, 3}}}, {{l, {n, 3}}}, axis1},
      {"gather", {{f, {7, c, 2}}, {i, {n, 3}}}, {{f, {n, 3, c, 2}}}, {{"offset", integer(1)}, {"limit", integer(10)}}},
      {"scatter_add", {{l, {n}}, {f, {n, c, 2}}}, {{f, {7, c, 2}}}, {{"offset", integer(1)}, {"limit", integer(10)}}},
      {"cumsum", {{f, {n, c, 3}}}, {{f, {n, c, 3}}}, axis1},
      {"resize", {{DType::u8, {n, 5, c}}}, {{DType::u8, {n, 3, c}}}, axis1},
      {"resize", {{d, {n, 5, c}}}, {{d, {n, 7, c}}}, Attrs(axis1).set("bicubic", true)},
      {"resize_grad", {{f, {n, 3, c}}}, {{f, {n, 5, c}}}, axis1},
      {"sort", {{f, {n, c, 3}}}, {{f, {n, c, 3}}, {l, {n, c, 3}}}, axis1},
      {"sort",
       {{i, {n, 5, c}}},
       {{i, {n, 2, c}}, {l, {n, 2, c}}},
       Attrs(axis1).set("descending", true).set("first", integer(2))},
      {"take_along",
       {{f, {n, 7, c}}, {i, {n, 3, c}}},
       {{f, {n, 3, c}}},
       Attrs(axis1).set("offset", integer(1)).set("limit", integer(10))},
      {"add_along",
       {{l, {n, 3, c}}, {f, {n, 3, c}}},
       {{f, {n, 7, c}}},
       Attrs(axis1).set("offset", integer(1)).set("limit", integer(10))},
      {"one_hot", {{i, {n, c}}}, {{f, {n, c, 5}}}, {{"offset", integer(1)}, {"limit", integer(10)}}},
      {"sgd", {{f, {n, c}}, {f, {n, c}}, {f, {n, c}}, {f, {}}}, {{f, {n, c}}, {f, {n, c}}}, rates},
      {"adam",
       {{d, {n, c}}, {d, {n, c}}, {d, {n, c}}, {d, {n, c}}, {d, {}}, {l, {}}},
       {{d, {n, c}}, {d, {n, c}}, {d, {n, c}}},
       rates},
      {"sgd_if", {{f, {n, c}}, {f, {n, c}}, {f, {n, c}}, {f, {}}, {b, {}}}, {{f, {n, c}}, {f, {n, c}}}, rates},
      {"adam_if",
       {{d, {n, c}}, {d, {n, c}}, {d, {n, c}}, {d, {n, c}}, {d, {}}, {l, {}}, {b, {}}},
       {{d, {n, c}}, {d, {n, c}}, {d, {n, c}}},
       rates},
  };
}

// Returns a buffer with values that suit every operand: small and not negative (for Adam's v), with some indices of
// rows on other devices.
Buffer random_buffer(std::mt19937& random, View view) {
  return with_type(view.dtype, [&]<class T>() {
    std::vector<T> values;
    for (std::int64_t k = view.count(); k > 0; --k)
      values.push_back(static_cast<T>(std::is_floating_point_v<T> ? (random() % 1000) / 100.0 : 1 + random() % 9));
    return filled<T>(view, values);
  });
}
Buffer with_view(Buffer& from, View view) {
  return with_type(view.dtype, [&]<class T>() { return filled<T>(view, logical<T>(from)); });
}

TEST(PlainKernels, StridesDoNotChangeAnyBitOfTheResult) {
  const unsigned seed = test_seed();
  std::mt19937 random(seed);
  for (const Case& c : cases(3, 4))
    for (int round = 0; round < 8; ++round) {
      std::vector<Buffer> in, strided;
      std::vector<View> out, strided_out;
      for (const TensorType& type : c.in) {
        in.push_back(random_buffer(random, View(type)));
        strided.push_back(with_view(in.back(), round == 0 ? View(type.dtype, type.shape, channels_last(type.shape))
                                                          : random_view(random, type.dtype, type.shape)));
      }
      for (const TensorType& type : c.out) {
        out.push_back(View(type));
        strided_out.push_back(round == 0 ? View(type.dtype, type.shape, channels_last(type.shape))
                                         : random_view(random, type.dtype, type.shape));
      }
      auto expected = run_plain(c.op, in, out, c.attrs), results = run_plain(c.op, strided, strided_out, c.attrs);
      for (std::size_t k = 0; k < out.size(); ++k) {
        SCOPED_TRACE(cat("seed ", seed, ", ", c.op, " ", c.attrs.print(), " output ", k, " as ", strided_out[k]));
        with_type(out[k].dtype, [&]<class T>() { ASSERT_EQ(logical<T>(results[k]), logical<T>(expected[k])); });
      }
    }
}

// n = 0 is an empty batch, and c = 0 gives sums of no elements. Shape rules exclude arg_max and max_pool without
// elements, so their kernels need not support them.
TEST(PlainKernels, EmptyOperandsAreSupported) {
  std::mt19937 random(1);
  for (auto [n, c] : {std::pair{0, 4}, std::pair{3, 0}, std::pair{0, 0}})
    for (const Case& k : cases(n, c)) {
      SCOPED_TRACE(cat(k.op, " with n=", n, " c=", c));
      std::vector<Buffer> in;
      std::vector<View> out;
      for (const TensorType& type : k.in) in.push_back(random_buffer(random, View(type)));
      for (const TensorType& type : k.out) out.push_back(View(type));
      EXPECT_NO_THROW(run_plain(k.op, in, out, k.attrs));
    }
}

TEST(PlainKernels, APreparedKernelAllocatesNoMemory) {
  std::mt19937 random(2);
  const KernelTable table(plain_kernels());
  for (const Case& k : cases(3, 4)) {
    CallSpec call;
    call.op = k.op;
    call.attrs = k.attrs;
    std::vector<Buffer> buffers;
    for (const TensorType& type : k.in) call.in.push_back(random_view(random, type.dtype, type.shape));
    for (const TensorType& type : k.out) call.out.push_back(random_view(random, type.dtype, type.shape));
    for (const View& view : call.in) buffers.push_back(random_buffer(random, view));
    for (const View& view : call.out) buffers.emplace_back(view);
    std::vector<std::byte*> addresses;
    for (Buffer& buffer : buffers) addresses.push_back(buffer.bytes.data());
    const std::span<std::byte* const> arguments = addresses;
    const KernelRow& row = table.row("plain." + k.op);
    std::vector<std::byte> workspace(static_cast<std::size_t>(row.workspace ? row.workspace(call) : 0));
    const PreparedKernel kernel = row.prepare(call);
    EXPECT_EQ(allocations_of([&] {
                kernel({arguments.first(call.in.size()), arguments.subspan(call.in.size()), workspace.data()});
              }),
              0)
        << print(call);
  }
}

TEST(PlainKernels, OtherTypesAndRanksAreNotSupported) {
  const KernelTable table(plain_kernels());
  CallSpec call;
  call.op = "conv2d";
  call.in = {View(DType::i32, {1, 1, 1, 1}), View(DType::i32, {1, 1, 1, 1})};
  call.out = {View(DType::i32, {1, 1, 1, 1})};
  EXPECT_FALSE(table.find(call).has_value());
  call.op = "reduce_sum";
  call.in = {View(DType::b8, {2})};
  call.out = {View(DType::b8, {})};
  EXPECT_FALSE(table.find(call).has_value());
  call.op = "copy";
  call.in = {View(DType::f32, Shape(9, 1))};
  call.out = call.in;
  EXPECT_FALSE(table.find(call).has_value()) << "nine dimensions";
}

}  // namespace
}  // namespace karez::kernels
