// Compares every fast row with the plain row of its op: random operands, odd sizes, teams of one and two, and equal
// bits in a second run.
#include <gtest/gtest.h>

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

View f32(Shape shape) { return View(DType::f32, std::move(shape)); }
View image(Shape shape, DType dtype = DType::f32) { return View(dtype, shape, channels_last(shape)); }
Attr integer(std::int64_t value) { return Attr(value); }

CallSpec call_of(std::string op, std::vector<View> in, std::vector<View> out, Attrs attrs = {}) {
  CallSpec call;
  call.op = std::move(op);
  call.in = std::move(in);
  call.out = std::move(out);
  call.attrs = std::move(attrs);
  return call;
}

// Runs the call on `row`, which must be the row chosen for it, and on the plain row, and compares the results.
void expect_as_plain(CallSpec call, const std::string& row, double tolerance, unsigned seed = 7) {
  for (int team : {1, 2, 3}) {
    call.team = team;
    SCOPED_TRACE(cat(print(call), ", team of ", team, ", seed ", seed));
    const auto choice = table().find(call);
    ASSERT_TRUE(choice.has_value());
    ASSERT_EQ(choice->kernel, row);
    if (starts_with(row, "onednn.")) {
      const std::string implementation = onednn_implementation(call);
      ASSERT_NE(implementation, "");
      ASSERT_EQ(implementation.find("ref"), std::string::npos) << implementation;
    }
    KernelBench fast(table().row(row), call), repeated(table().row(row), call),
        plain(table().row("plain." + call.op), call);
    for (KernelBench* bench : {&fast, &repeated, &plain}) {
      fill_random(*bench, seed);
      bench->run();
    }
    repeated.run();
    EXPECT_TRUE(same_bits(fast, repeated)) << "the second run gives different bits";
    for (std::size_t i = 0; i < fast.out.size(); ++i)
      EXPECT_LE(difference(fast.out[i], plain.out[i]), tolerance) << "output " << i;
  }
}

TEST(FastMatmul, ResultsAgreeWithThePlainRowForEveryTranspose) {
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{{1, 1, 1},
                                                                        {1, 5, 3},
                                                                        {5, 1, 3},
                                                                        {5, 3, 1},
                                                                        {7, 13, 5},
                                                                        {64, 10, 100},
                                                                        {33, 65, 17},
                                                                        {64, 256, 784},
                                                                        {100, 10, 64},
                                                                        {16, 50, 128}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        expect_as_plain(call_of("matmul", {f32(ta ? Shape{k, m} : Shape{m, k}), f32(tb ? Shape{n, k} : Shape{k, n})},
                                {f32({m, n})}, {{"transpose_a", ta}, {"transpose_b", tb}}),
                        "onednn.matmul", 2e-6 * std::sqrt(k) + 1e-6);
}

TEST(FastMatmul, BiasReluAndBatchesAreSupported) {
  for (const bool relu : {false, true}) {
    expect_as_plain(call_of("matmul", {f32({64, 100}), f32({100, 10}), f32({10})}, {f32({64, 10})},
                            {{"bias", true}, {"relu", relu}}),
                    "onednn.matmul", 1e-5);
    expect_as_plain(
        call_of("matmul", {f32({1, 7}), f32({7, 1}), f32({1})}, {f32({1, 1})}, {{"bias", true}, {"relu", relu}}),
        "onednn.matmul", 1e-5);
  }
  expect_as_plain(call_of("matmul", {f32({3, 2, 9, 5}), f32({3, 2, 5, 7})}, {f32({3, 2, 9, 7})}), "onednn.matmul",
                  1e-5);
  expect_as_plain(call_of("matmul", {f32({4, 9, 5}), f32({4, 7, 5})}, {f32({4, 9, 7})}, {{"transpose_b", true}}),
                  "onednn.matmul", 1e-5);
}

TEST(FastMatmul, EmptyF64AndStridedOperandsRunOnThePlainRow) {
  EXPECT_EQ(table().find(call_of("matmul", {f32({3, 0}), f32({0, 4})}, {f32({3, 4})}))->kernel, "plain.matmul");
  EXPECT_EQ(
      table()
          .find(call_of("matmul", {View(DType::f64, {3, 2}), View(DType::f64, {2, 4})}, {View(DType::f64, {3, 4})}))
          ->kernel,
      "plain.matmul");
  EXPECT_EQ(table().find(call_of("matmul", {View(DType::f32, {3, 2}, {4, 2}), f32({2, 4})}, {f32({3, 4})}))->kernel,
            "plain.matmul");
}

struct ConvCase {
  std::int64_t n, c, h, w, o, r, s;
  Ints stride{1, 1}, padding{0, 0}, dilation{1, 1};
};
const std::vector<ConvCase> conv_cases = {
    {2, 1, 9, 9, 5, 3, 3},
    {3, 1, 28, 28, 16, 3, 3},
    {2, 1, 28, 28, 8, 3, 3, {1, 1}, {1, 1}},
    {2, 16, 13, 13, 32, 3, 3},
    {1, 8, 13, 13, 16, 3, 3},
    {2, 1, 11, 7, 33, 5, 3, {2, 2}, {2, 1}},
    {2, 1, 12, 9, 20, 2, 4, {1, 2}, {0, 2}, {1, 2}},
    {2, 3, 11, 7, 33, 5, 3, {2, 2}, {2, 1}},
    {2, 2, 9, 10, 40, 3, 3, {1, 1}, {2, 2}, {2, 2}},
    {1, 5, 6, 6, 7, 1, 1},
    {2, 17, 8, 8, 19, 3, 3, {2, 1}, {1, 1}},
};
Attrs attrs_of(const ConvCase& c) { return {{"stride", c.stride}, {"padding", c.padding}, {"dilation", c.dilation}}; }
Shape out_of(const ConvCase& c) {
  const auto size = [&](std::int64_t x, std::int64_t k, std::size_t d) {
    return (x + 2 * c.padding[d] - c.dilation[d] * (k - 1) - 1) / c.stride[d] + 1;
  };
  return {c.n, c.o, size(c.h, c.r, 0), size(c.w, c.s, 1)};
}

TEST(FastConv, ResultsAgreeWithThePlainRowInAllThreeDirections) {
  for (const ConvCase& c : conv_cases) {
    const View x = image({c.n, c.c, c.h, c.w}), w = image({c.o, c.c, c.r, c.s}), y = image(out_of(c));
    const std::string forward = c.c == 1 ? "hwy.conv2d" : "onednn.conv2d";
    expect_as_plain(call_of("conv2d", {x, w}, {y}, attrs_of(c)), forward, 3e-5);
    for (const bool relu : {false, true})
      expect_as_plain(call_of("conv2d", {x, w, f32({c.o})}, {y}, attrs_of(c).set("bias", true).set("relu", relu)),
                      forward, 3e-5);
    expect_as_plain(call_of("conv2d_grad_input", {y, w}, {x}, attrs_of(c).set("shape", x.shape)),
                    "onednn.conv2d_grad_input", 3e-5);
    expect_as_plain(call_of("conv2d_grad_weight", {x, y}, {w}, attrs_of(c).set("kernel", Ints{c.r, c.s})),
                    "onednn.conv2d_grad_weight", 4e-6 * std::sqrt(y.count() / c.o));
  }
}

TEST(FastConv, OneDnnAgreesWithThePlainRowForOneInputChannel) {
  for (int team : {1, 2}) {
    CallSpec call = call_of("conv2d", {image({2, 1, 28, 28}), image({16, 1, 3, 3})}, {image({2, 16, 26, 26})});
    call.team = team;
    KernelBench fast(table().row("onednn.conv2d"), call), plain(table().row("plain.conv2d"), call);
    for (KernelBench* bench : {&fast, &plain}) fill_random(*bench, 3), bench->run();
    EXPECT_LE(difference(fast.out[0], plain.out[0]), 1e-5);
  }
}

TEST(FastConv, RowMajorImagesAndEmptyBatchesRunOnThePlainRow) {
  EXPECT_EQ(table().find(call_of("conv2d", {f32({2, 3, 9, 9}), f32({4, 3, 3, 3})}, {f32({2, 4, 7, 7})}))->kernel,
            "plain.conv2d");
  EXPECT_EQ(table().find(call_of("conv2d", {image({0, 3, 9, 9}), image({4, 3, 3, 3})}, {image({0, 4, 7, 7})}))->kernel,
            "plain.conv2d");
}

TEST(FastPool, ResultsAgreeWithThePlainRow) {
  struct Case {
    Shape x;
    Ints kernel, stride, padding;
  };
  for (const Case& c : std::vector<Case>{{{3, 16, 26, 26}, {2, 2}, {2, 2}, {0, 0}},
                                         {{2, 32, 11, 11}, {2, 2}, {2, 2}, {0, 0}},
                                         {{2, 5, 7, 9}, {2, 2}, {2, 2}, {0, 0}},
                                         {{1, 19, 9, 8}, {3, 3}, {2, 2}, {1, 1}},
                                         {{2, 8, 6, 6}, {3, 2}, {3, 2}, {0, 0}},
                                         {{1, 3, 5, 5}, {2, 3}, {1, 1}, {1, 1}},
                                         {{64, 16, 26, 26}, {2, 2}, {2, 2}, {0, 0}}}) {
    const auto size = [&](std::size_t d) { return (c.x[d + 2] + 2 * c.padding[d] - c.kernel[d]) / c.stride[d] + 1; };
    const Shape y{c.x[0], c.x[1], size(0), size(1)};
    const Attrs attrs{{"kernel", c.kernel}, {"stride", c.stride}, {"padding", c.padding}};
    expect_as_plain(call_of("max_pool", {image(c.x)}, {image(y), image(y, DType::i32)}, attrs), "hwy.max_pool", 0);
    Attrs back = attrs;
    back.set("shape", c.x);
    expect_as_plain(call_of("max_pool_grad", {image(y), image(y, DType::i32)}, {image(c.x)}, back), "hwy.max_pool_grad",
                    1e-6);
    expect_as_plain(call_of("avg_pool", {image(c.x)}, {image(y)}, attrs), "onednn.avg_pool", 1e-6);
    expect_as_plain(call_of("avg_pool_grad", {image(y)}, {image(c.x)}, back), "onednn.avg_pool_grad", 1e-6);
  }
}

TEST(FastPool, TheFirstOfEqualValuesIsTheMaximumAndNanExceedsAllNumbers) {
  for (const Ints& stride : {Ints{2, 2}, Ints{1, 1}}) {
    const std::int64_t p = stride[0] == 2 ? 1 : 3;
    CallSpec call =
        call_of("max_pool", {image({1, 3, 2, 4})},
                {image({1, 3, 1, stride[0] == 2 ? 2 : p}), image({1, 3, 1, stride[0] == 2 ? 2 : p}, DType::i32)},
                {{"kernel", Ints{2, 2}}, {"stride", stride}});
    KernelBench fast(table().row("hwy.max_pool"), call), plain(table().row("plain.max_pool"), call);
    for (KernelBench* bench : {&fast, &plain}) {
      auto* x = reinterpret_cast<float*>(bench->in[0].bytes.data());
      for (int i = 0; i < 24; ++i)
        x[i] = i % 3 == 0 ? 1.0f : i % 3 == 1 ? -HUGE_VALF : i == 11 || i == 17 ? NAN : static_cast<float>(i % 5);
      bench->run();
    }
    EXPECT_EQ(difference(fast.out[0], plain.out[0]), 0);
    EXPECT_EQ(logical<std::int32_t>(fast.out[1]), logical<std::int32_t>(plain.out[1]));
  }
}

TEST(FastReduce, ReductionsOverAdjacentAxesAgreeWithThePlainRow) {
  for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"}) {
    const std::string row = cat("hwy.", op);
    for (const auto& [shape, axes] : std::vector<std::pair<Shape, Ints>>{{{64, 10}, {1}},
                                                                         {{64, 10}, {0}},
                                                                         {{64, 256}, {0}},
                                                                         {{1000, 77}, {0}},
                                                                         {{3, 5000}, {1}},
                                                                         {{100001}, {0}},
                                                                         {{7, 5, 3}, {1}},
                                                                         {{7, 5, 3}, {0, 1, 2}},
                                                                         {{1, 5}, {0}},
                                                                         {{5, 1}, {1}},
                                                                         {{}, {}},
                                                                         {{4, 3}, {}},
                                                                         {{2, 40000, 5}, {1}},
                                                                         {{1, 100000, 3}, {1}},
                                                                         {{9, 1, 70}, {0}}}) {
      Shape result_shape;
      for (std::size_t d = 0; d < shape.size(); ++d)
        if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) == axes.end())
          result_shape.push_back(shape[d]);
      expect_as_plain(call_of(op, {f32(shape)}, {f32(result_shape)}, {{"axes", axes}}), row, 2e-5);
    }
    expect_as_plain(call_of(op, {image({64, 16, 26, 26})}, {f32({16})}, {{"axes", Ints{0, 2, 3}}}), row, 2e-5);
    expect_as_plain(call_of(op, {image({5, 7, 3, 2})}, {f32({7})}, {{"axes", Ints{0, 2, 3}}}), row, 2e-5);
  }
  EXPECT_EQ(table().find(call_of("reduce_sum", {f32({5, 7, 3})}, {f32({7})}, {{"axes", Ints{0, 2}}}))->kernel,
            "plain.reduce_sum");
  EXPECT_EQ(table().find(call_of("reduce_sum", {f32({0, 7})}, {f32({7})}, {{"axes", Ints{0}}}))->kernel,
            "plain.reduce_sum");
}

TEST(FastReduce, RowsMayHaveGaps) {
  for (const auto& [x, result, axis] : {std::tuple{View(DType::f32, {12, 1}, {3, 1}), Shape{1}, 0},
                                        {View(DType::f32, {64, 10}, {16, 1}), Shape{10}, 0},
                                        {View(DType::f32, {64, 10}, {40, 2}), Shape{64}, 1},
                                        {View(DType::f32, {7, 5, 3}, {40, 6, 1}), Shape{7, 3}, 1},
                                        {View(DType::f32, {2, 40000, 5}, {300000, 7, 1}), Shape{2, 5}, 1}})
    expect_as_plain(call_of("reduce_sum", {x}, {f32(result)}, {{"axes", Ints{axis}}}), "hwy.reduce_sum", 2e-5);
  const CallSpec columns =
      call_of("reduce_sum", {View(DType::f32, {64, 10}, {40, 2})}, {f32({10})}, {{"axes", Ints{0}}});
  EXPECT_EQ(table().find(columns)->kernel, "plain.reduce_sum");
}

TEST(FastReduce, NanIsPropagated) {
  for (const char* op : {"reduce_max", "reduce_min"})
    for (const std::int64_t axis : {0, 1}) {
      const CallSpec call = call_of(op, {f32({40, 40})}, {f32({40})}, {{"axes", Ints{axis}}});
      KernelBench fast(table().row(cat("hwy.", op)), call), plain(table().row(cat("plain.", op)), call);
      for (KernelBench* bench : {&fast, &plain}) {
        fill_random(*bench, 5);
        bench->in[0].at<float>({3, 17}) = NAN;
        bench->in[0].at<float>({39, 39}) = NAN;
        bench->run();
      }
      EXPECT_EQ(difference(fast.out[0], plain.out[0]), 0);
    }
}

// The groups have one channel each (depthwise), several channels each, or more output than input channels.
TEST(FastConv, GroupsAgreeWithThePlainRowInAllThreeDirections) {
  for (const auto& [c, o, groups] :
       {std::array<std::int64_t, 3>{16, 16, 16}, {16, 32, 16}, {32, 32, 4}, {12, 24, 3}, {5, 5, 5}})
    for (const std::int64_t stride : {1, 2}) {
      const std::int64_t size = 9, p = (size + 2 - 3) / stride + 1;
      const View x = image({3, c, size, size}), y = image({3, o, p, p});
      const Attrs attrs{{"stride", Ints{stride, stride}}, {"padding", Ints{1, 1}}, {"groups", Attr(groups)}};
      for (const View& w : {f32({o, c / groups, 3, 3}), image({o, c / groups, 3, 3})}) {
        expect_as_plain(call_of("conv2d", {x, w}, {y}, attrs), "onednn.conv2d", 3e-5);
        expect_as_plain(call_of("conv2d", {x, w, f32({o})}, {y}, Attrs(attrs).set("bias", true).set("relu", true)),
                        "onednn.conv2d", 3e-5);
        expect_as_plain(call_of("conv2d_grad_input", {y, w}, {x}, Attrs(attrs).set("shape", x.shape)),
                        "onednn.conv2d_grad_input", 3e-5);
        expect_as_plain(call_of("conv2d_grad_weight", {x, y}, {w}, Attrs(attrs).set("kernel", Ints{3, 3})),
                        "onednn.conv2d_grad_weight", 2e-4);
      }
    }
}

TEST(FastUpdate, ResultsAgreeWithThePlainRowAndDoNotDependOnTheTeam) {
  const std::vector<View> tensors{f32({784, 256}),      f32({256}),   f32({1}),
                                  image({16, 3, 3, 3}), f32({17, 3}), f32({0, 4})};
  for (const char* op : {"sgd", "adam"})
    for (const double decay : {0.0, 0.01})
      for (const bool flag : {false, true}) {
        const bool adam = std::string(op) == "adam";
        std::vector<View> in, out;
        for (const View& t : tensors) {
          in.insert(in.end(), adam ? 4 : 3, t);
          out.insert(out.end(), adam ? 3 : 2, t);
        }
        in.push_back(f32({}));
        if (adam) in.push_back(View(DType::i64, {}));
        const Attrs attrs =
            adam ? Attrs{{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", decay}, {"decoupled", flag}}
                 : Attrs{{"momentum", 0.9}, {"weight_decay", decay}, {"nesterov", flag}};
        CallSpec call = call_of(op, in, out, attrs);
        KernelBench plain(table().row(cat("plain.", op)), call), team_of_one(table().row(cat("hwy.", op)), call);
        call.team = 2;
        KernelBench team_of_two(table().row(cat("hwy.", op)), call);
        for (KernelBench* bench : {&plain, &team_of_one, &team_of_two}) {
          fill_random(*bench, 11);
          for (std::size_t t = 0; adam && t < tensors.size(); ++t)  // second moments are not negative
            for_each_index(tensors[t].shape, [&](const auto& i) {
              bench->in[4 * t + 2].at<float>(i) = std::abs(bench->in[4 * t + 2].at<float>(i));
            });
          bench->in[adam ? 4 * tensors.size() : 3 * tensors.size()].at<float>({}) = 0.01f;
          for (std::size_t t = 0; t < tensors.size(); ++t)  // in place: outputs have the addresses of the inputs
            for (std::size_t i = 0; i < (adam ? 3u : 2u); ++i)
              bench->outs[t * (adam ? 3 : 2) + i] = bench->ins[t * (adam ? 4 : 3) + i];
          bench->run();
          bench->run();
        }
        for (std::size_t i = 0; i < plain.in.size(); ++i) {
          EXPECT_LE(difference(team_of_one.in[i], plain.in[i]), 1e-5) << op << " operand " << i;
          EXPECT_EQ(team_of_one.in[i].bytes, team_of_two.in[i].bytes) << op << " operand " << i;
        }
      }
}

TEST(FastUpdate, AConditionalUpdateIsAppliedOrKeepsTheStates) {
  const std::vector<View> tensors{f32({784, 256}), f32({3}), f32({0, 4})};
  for (const bool adam : {false, true})
    for (const bool in_place : {false, true})
      for (const bool apply : {false, true}) {
        const std::size_t per_tensor = adam ? 4 : 3;
        std::vector<View> in, out;
        for (const View& t : tensors) in.insert(in.end(), per_tensor, t), out.insert(out.end(), per_tensor - 1, t);
        in.push_back(f32({}));
        if (adam) in.push_back(View(DType::i64, {}));
        const Attrs attrs = adam ? Attrs{{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}} : Attrs{{"momentum", 0.9}};
        CallSpec step = call_of(adam ? "adam" : "sgd", in, out, attrs);
        step.team = 2;
        CallSpec requested = step;
        requested.op += "_if", requested.in.push_back(View(DType::b8, {}));
        KernelBench plain(table().row(cat("hwy.", step.op)), step),
            tested(table().row(cat("hwy.", requested.op)), requested);
        for (KernelBench* bench : {&plain, &tested}) {
          fill_random(*bench, 3);
          for (std::size_t t = 0; t < tensors.size(); ++t) {
            if (tensors[t].count() > 0 && !apply)
              bench->in[per_tensor * t + per_tensor - 1].at<float>(Ints(tensors[t].shape.size(), 0)) = NAN;
            for (std::size_t i = 0; in_place && i + 1 < per_tensor; ++i)
              bench->outs[t * (per_tensor - 1) + i] = bench->ins[t * per_tensor + i];
          }
        }
        tested.in.back().at<bool>({}) = apply;
        const auto before = tested.in;
        if (apply) plain.run();
        tested.run();
        for (std::size_t t = 0; t < tensors.size(); ++t)
          for (std::size_t i = 0; i + 1 < per_tensor; ++i) {
            const auto& result = in_place ? tested.in[per_tensor * t + i] : tested.out[(per_tensor - 1) * t + i];
            const auto& expected = !apply     ? before[per_tensor * t + i]
                                   : in_place ? plain.in[per_tensor * t + i]
                                              : plain.out[(per_tensor - 1) * t + i];
            EXPECT_EQ(result.bytes, expected.bytes)
                << step.op << (in_place ? ", in place" : "") << (apply ? ", applied" : ", not applied") << ", tensor "
                << t << ", state " << i;
          }
      }
}

TEST(FastRandom, RandomBitsAgreeWithThePlainKernel) {
  for (const auto& [shape, logical, begin] :
       std::vector<std::array<Ints, 3>>{{Ints{64, 128}, Ints{64, 128}, Ints{0, 0}},
                                        {Ints{16, 50}, Ints{64, 128}, Ints{16, 37}},
                                        {Ints{1}, Ints{9}, Ints{7}},
                                        {Ints{100001}, Ints{100007}, Ints{5}},
                                        {Ints{3, 2, 5}, Ints{3, 4, 5}, Ints{0, 1, 0}}})
    expect_as_plain(
        call_of("random_uniform", {View(DType::i64, {2})}, {f32(shape)},
                {{"dtype", "f32"}, {"shape", shape}, {"site", integer(12345)}, {"begin", begin}, {"logical", logical}}),
        "hwy.random_uniform", 0);
}

// Kernels without AVX-512 or AVX2 give the same results within rounding. The limit applies only to Highway, not to
// oneDNN.
TEST(FastTargets, EveryInstructionSetOfThisMachineAgreesWithThePlainRows) {
  on_every_instruction_set([](const char* name) {
    SCOPED_TRACE(cat("on ", name));
    for (const CallSpec& call : calls_for_fast_rows()) {
      const auto choice = table().find(call);
      ASSERT_TRUE(choice.has_value());
      KernelBench fast(table().row(choice->kernel), call), plain(table().row("plain." + call.op), call);
      for (KernelBench* bench : {&fast, &plain}) {
        fill_random(*bench, 4);
        bench->run();
      }
      for (std::size_t i = 0; i < fast.out.size(); ++i)
        EXPECT_LE(difference(fast.out[i], plain.out[i]), 2e-4) << print(call) << ", output " << i;
    }
  });
}

}  // namespace
}  // namespace karez::kernels
