// Tests of reports and warnings of compiled functions, and of printed arrays and tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "karez/api/compile.h"
#include "karez/api/data_iterator.h"
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/base/text.h"
#include "karez/data/dataset.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A source whose elements are the numbers of their batches.
struct Numbers : Source {
  TensorType type() const override { return {DType::f32, {2}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<float>()[i] = static_cast<float>(position);
  }
};

std::string stderr_of(const std::function<void()>& call) {
  ::testing::internal::CaptureStderr();
  call();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Warnings, TheReasonForCompilingAgainDescribesTheArguments) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  const auto compiled = [&] {
    return compile(mesh, [](Tensor x, Tensor y) { return x + y; }, {.name = "add", .keep = 3});
  };
  const Array split = array_on(mesh, vector_of(1, 2), {"d"});
  const Feed batch{std::make_shared<Numbers>(), 3};
  const auto warning = [&](const Argument& first, const Argument& second) {
    const auto f = compiled();
    f(vector_of(1, 2), vector_of(3, 4)).wait();
    const std::string text = stderr_of([&] { f.call({first, second}).wait(); });
    return text.substr(text.find("function '"));
  };
  const auto expected = [](const char* arguments) {
    return cat("function 'add' is compiled again: it was called with (", arguments,
               "), previously with (f32[2], f32[2]); this warning appears once, and 3 signatures are kept\n");
  };
  EXPECT_EQ(warning(vector_of(1, 2), vector_of(3)), expected("f32[2], f32[1]"));
  EXPECT_EQ(warning(batch, vector_of(3, 4)), expected("f32[2] of a source, f32[2]"));
  EXPECT_EQ(warning(split, batch), expected("f32[2@d], f32[2] of a source"));
  EXPECT_EQ(warning(vector_of(3, 4), local(vector_of(3, 4))), expected("f32[2], f32[2] in parts"));
}

TEST(Reports, TheSummaryAndThePageSayForHowLongDevicesWaitedForData) {
  World world;
  const auto f = compile(world.mesh(), [](Tensor x) { return x * 2.0; });
  const auto g = compile(world.mesh(), [](Tensor x) { return x + 1.0; });
  const char* text = "the devices waited for data for ";
  const data::Dataset slow = data::range(20).filter([](const data::Element&) { return true; }).map([](const auto& e) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return e;
  });
  DataIterator iterator = world.iterate(slow);
  for (int i = 0; i < 5; ++i) {
    f(vector_of(1, 2)).wait();
    EXPECT_THAT(f.summary(), Not(HasSubstr(text))) << "it reads no element";
  }
  ::testing::internal::CaptureStderr();
  while (const auto element = iterator.next()) {
    f(data::array_of(*element)).wait();
    g(data::array_of(*element)).wait();
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("it is limited by "));
  EXPECT_THAT(f.summary(), AllOf(HasSubstr(text), HasSubstr(" in 20 launches, before the last ones for ")));
  EXPECT_THAT(f.page().html(), HasSubstr(text));
  EXPECT_THAT(g.summary(), Not(HasSubstr(text))) << "the call of f before it has waited";
  EXPECT_THAT(g.page().html(), Not(HasSubstr(text)));
  EXPECT_THAT(iterator.explain(), AllOf(HasSubstr(text), HasSubstr("; the data set is limited by ")));
}

TEST(Reports, ThePageShowsThePlanAndThePredictedTime) {
  World world({.costs = CostTable()});
  const auto f = compile(world.mesh(), [](Tensor x) { return matmul(x, x); }, {.name = "square"});
  f.compile({{DType::f32, {64, 64}}});
  EXPECT_EQ(f.page().text(), f.plan_text());
  EXPECT_THAT(f.page().html(), StartsWith("<!"));
  EXPECT_THAT(f.page().html(), HasSubstr("square"));
  EXPECT_GT(f.predicted_seconds(), 0);
  EXPECT_LT(f.predicted_seconds(), 1);
  EXPECT_GT(f.layout_seconds(), 0);
  EXPECT_GE(f.peak_bytes(), 64 * 64 * 4);  // the input, but not the result
  EXPECT_FALSE(f.passes().empty());
  EXPECT_EQ(f.signatures(), 1);
  EXPECT_THAT(f.shard_report(), HasSubstr("optimal"));
  EXPECT_THAT(f.graph_text(), HasSubstr("matmul"));
}

TEST(PrintedValues, ElementsAreFormattedByTheirDtype) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  const Interactive scope(mesh);
  const Array array = array_on(mesh, vector_of(1, 2.5), {"d"});
  EXPECT_EQ(cat(array), "f32[2@d] [1, 2.5]");
  EXPECT_EQ(cat(Tensor(array)), "f32[2@d] [1, 2.5]");
  EXPECT_EQ(print(cast(array, DType::bf16)), "bf16[2] [1, 2.5]");
  EXPECT_EQ(print(cast(array, DType::f16)), "f16[2] [1, 2.5]");
  EXPECT_EQ(print(Tensor(HostArray::of<double>({2}, {1.0 / 3, 1e20}))), "f64[2] [0.333333, 1e+20]");
  EXPECT_EQ(print(Tensor(HostArray::of<std::int32_t>({2, 1}, {-7, 12}))), "i32[2, 1] [[-7],\n [12]]");
  EXPECT_EQ(print(Tensor(HostArray::of<bool>({2}, {true, false}))), "bool[2] [true, false]");
  EXPECT_EQ(print(Tensor(HostArray(TensorType{DType::f32, {0, 3}}))), "f32[0, 3] []");
  EXPECT_EQ(print(Tensor(3)), "i64[] 3");
  EXPECT_EQ(print(Tensor(true)), "bool[] true");
  EXPECT_EQ(print(Tensor(0.5)), "f32[] 0.5");
  EXPECT_EQ(print(iota({6}, 0)), "f32[6] [0, 1, 2, 3, 4, 5]");
  EXPECT_EQ(print(iota({7}, 0)), "f32[7] [0, 1, 2, ..., 4, 5, 6]");
  EXPECT_EQ(print(Tensor()), "no tensor");
  std::string text;
  value_and_grad([&](Tensor x) { return text = print(x * 2), sum(x); })(array);
  EXPECT_EQ(text, "f32[2] of a function whose gradient is being taken");
}

TEST(InvalidIndices, TheErrorGivesTheIndexAndItsPosition) {
  World world;
  const auto rows = compile(world.mesh(), [](Tensor table, Tensor index) { return gather(table, index); });
  const HostArray table(TensorType{DType::f32, {3, 2}}), empty(TensorType{DType::f32, {0, 2}});
  const auto error = [&](const HostArray& from, const HostArray& index) {
    const std::string text = error_of([&] { rows(from, index).wait(); });
    return text.substr(std::min(text.size(), text.find(": ")));
  };
  EXPECT_EQ(error(table, HostArray::of<std::int64_t>({2, 2}, {0, 2, 3, 1})),
            ": the index 3 at [1, 0] is outside 0 to 2; nothing was launched");
  EXPECT_EQ(error(table, HostArray::of<std::int32_t>({3}, {0, 2, -1})),
            ": the index -1 at [2] is outside 0 to 2; nothing was launched");
  EXPECT_EQ(error(empty, HostArray::of<std::int32_t>({1}, {0})),
            ": the index 0 at [0] is outside an empty table; nothing was launched");
  EXPECT_EQ(error_of([&] { rows(table, HostArray::of<std::int32_t>({2}, {0, 2})).wait(); }), "no error");
  EXPECT_EQ(error_of([&] { rows(empty, HostArray(TensorType{DType::i32, {0}})).wait(); }), "no error");
}

}  // namespace
}  // namespace karez
