// Tests of arrays: results of calls stay on the mesh, later calls take them in their layout, and an array that a failed
// call should have made reports the error of the call.
#include "karez/api/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/state/world_state.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void expect_bits(const HostArray& a, const HostArray& b, const std::string& label) {
  ASSERT_EQ(a.type(), b.type()) << label;
  EXPECT_EQ(std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.view().bytes())), 0) << label;
}

struct Setting {
  const char* mesh;
  std::vector<std::string> rows, columns;  // two layouts of a matrix
};
const Setting settings[] = {{"", {"", ""}, {"", ""}},
                            {"data=2", {"data", ""}, {"", "data"}},
                            {"data=3", {"data", ""}, {"", "data"}},
                            {"data=2,model=2", {"data", "model"}, {"", "data+model"}}};

// Returns whether the host reads an input of the plan.
bool reads_on_host(const Function& f) {
  return std::any_of(f.plan().actors.begin(), f.plan().actors.end(), [&](const Actor& a) {
    return a.body == BodyKind::input && f.plan().stream(a.stream).kind == plan::StreamKind::host;
  });
}

TEST(Array, AChainOfCallsGivesBitForBitTheResultsOfCallsThroughTheHost) {
  for (const Setting& setting : settings)
    for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      const std::string label = cat(setting.mesh, " ", name_of(dtype));
      const Mesh shape = Mesh::parse(setting.mesh);
      World world({.devices = shape.size()});
      DeviceMesh mesh = world.mesh(shape.axes);
      auto body = [&](Tensor x) { return with_layout(x * 2 - select(x > 1, x, 1), setting.rows); };
      auto f = compile(mesh, body), host_function = compile(mesh, body);
      const HostArray x = small_integers(dtype, {5, 7});
      Array y = f(x).value();
      EXPECT_EQ(y.layout().size(), shape.axes.size());
      f(y).wait();
      const std::int64_t copies = mesh.world->copies.allocated();
      const auto sent = world.counters().sent_bytes;
      for (int i = 0; i < 5; ++i) y = f(y).value();
      expect_bits(
          y.read(),
          [&] {
            HostArray z = host_function(x).value().read();
            for (int i = 0; i < 5; ++i) z = host_function(z).value().read();
            return z;
          }(),
          label);
      f(y).wait();
      EXPECT_EQ(f.signatures(), 2) << label << ": expected one signature for the host array and one for the array";
      EXPECT_FALSE(reads_on_host(f)) << label;
      EXPECT_TRUE(f.plan().transfers.empty())
          << label << ": expected no transfer, because the array has the requested layout\n"
          << f.plan_text();
      EXPECT_TRUE(reads_on_host(host_function)) << label;
      EXPECT_EQ(world.counters().sent_bytes, sent) << label;
      EXPECT_GE(mesh.world->copies.allocated(), copies) << label;
    }
}

// The function needs sums over split dimensions, transposed layouts and products. The plan converts arguments in other
// layouts, and every transfer is counted.
TEST(Array, ArgumentsInOtherLayoutsAreConvertedInsideThePlan) {
  for (const Setting& setting : settings) {
    const Mesh shape = Mesh::parse(setting.mesh);
    World world({.devices = shape.size()});
    DeviceMesh mesh = world.mesh(shape.axes);
    auto make = compile(mesh, [&](Tensor x) {
      return std::pair(with_layout(x * 2, setting.rows), with_layout(x * 3, setting.columns));
    });
    auto use =
        compile(mesh, [](Tensor a, Tensor b) { return std::tuple(matmul(a, transpose(b)), sum(a, {0}), b - a); });
    const HostArray x = small_integers(DType::f64, {5, 6});
    Future operands = make(x);
    Future direct = use(operands.value(0), operands.value(1)),
           through_host = use(operands.value(0).read(), operands.value(1).read());
    for (std::size_t i = 0; i < 3; ++i) {
      expect_bits(direct.value(i).read(), through_host.value(i).read(), cat(setting.mesh, " ", i));
      EXPECT_EQ(direct.value(i).layout(), Layout(shape.axes.size(), B())) << "results must be Broadcast by default";
    }
    use(operands.value(0), operands.value(1)).wait();
    std::int64_t planned_bytes = 0, bytes_before = 0, bytes_after = 0;
    for (const Transfer& transfer : use.plan().transfers) planned_bytes += transfer.bytes;
    for (const auto& [kind, bytes] : world.counters().sent_bytes) bytes_before += bytes;
    use(operands.value(0), operands.value(1)).wait();
    for (const auto& [kind, bytes] : world.counters().sent_bytes) bytes_after += bytes;
    EXPECT_EQ(bytes_after - bytes_before, planned_bytes) << setting.mesh;
    EXPECT_EQ(planned_bytes > 0, shape.size() > 1) << setting.mesh;
  }
}

TEST(Array, AnArrayHasTypeLayoutAndParts) {
  World world({.devices = 3});
  DeviceMesh mesh = world.mesh("data=3");
  auto f =
      compile(mesh, [](Tensor x) { return std::tuple(with_layout(x, P("data")), x + 1, with_layout(x, P(nullptr))); });
  Future out = f(small_integers(DType::i32, {4}));
  EXPECT_EQ(out.size(), 3u);
  const Array split = out.value(0), replicated = out.value(1);
  EXPECT_EQ(split.type(), (TensorType{DType::i32, {4}}));
  EXPECT_EQ(split.layout(), Layout{S(0)});
  EXPECT_EQ(split.mesh(), mesh.mesh);
  EXPECT_EQ(replicated.layout(), Layout{B()});
  EXPECT_EQ(out.value(2).layout(), Layout{B()});
  ASSERT_EQ(split.local().size(), 3u);
  EXPECT_THAT(list<std::int32_t>(split.local()[0]), ElementsAre(-3, 4));
  EXPECT_THAT(list<std::int32_t>(split.local()[1]), ElementsAre(0));
  EXPECT_THAT(list<std::int32_t>(split.local()[2]), ElementsAre(7));
  EXPECT_THAT(list<std::int32_t>(split.read()), ElementsAre(-3, 4, 0, 7));
  for (const HostArray& part : replicated.local()) EXPECT_THAT(list<std::int32_t>(part), ElementsAre(-2, 5, 1, 8));
  EXPECT_TRUE(split.done());
  EXPECT_EQ(error_of([&] { out.value(3); }), "result 3 does not exist; the call has 3 results");
  EXPECT_EQ(error_of([&] { split.item(); }), "item: the array must have exactly one element, got i32[4]");
  EXPECT_EQ(error_of([&] { Array().read(); }), "the array is uninitialised; Future::value returns valid arrays");
  EXPECT_FALSE(Array().valid());
}

TEST(Array, BytesOfAReplicatedArrayCanBeReadInPlace) {
  std::shared_ptr<const std::byte> bytes_in_place;
  const HostArray x = small_integers(DType::f32, {4, 3});
  {
    World world({.devices = 2});
    const DeviceMesh mesh = world.mesh("data=2");
    Function replicated = compile(mesh, [](Tensor a) { return a + 1; });
    Function split = compile(mesh, [](Tensor a) { return with_layout(a + 1, {"data", ""}); });
    const Array result = replicated(x).value();
    EXPECT_EQ(split(x).value().bytes(), nullptr);
    bytes_in_place = result.bytes();
    ASSERT_NE(bytes_in_place, nullptr);
    EXPECT_EQ(bytes_in_place, result.bytes());
    const HostArray copy = result.read();
    EXPECT_EQ(std::memcmp(bytes_in_place.get(), copy.bytes(), 48), 0);
  }
  EXPECT_EQ(reinterpret_cast<const float*>(bytes_in_place.get())[0], x.data<float>()[0] + 1)
      << "the bytes must stay valid after the world has ended";
}

TEST(Array, ArraysMayBeScalarsOrHaveEmptyParts) {
  World world({.devices = 3});
  DeviceMesh mesh = world.mesh("data=3");
  auto f = compile(mesh, [](Tensor x) { return std::pair(with_layout(x * 2, P("data")), sum(x)); });
  auto g = compile(mesh, [](Tensor x, Tensor s) { return x + s; });
  Future results = f(HostArray::of<float>({2}, {3, 4}));
  EXPECT_EQ(results.value(0).local()[2].count(), 0);
  EXPECT_THAT(list(g(results.value(0), results.value(1)).value().read()), ElementsAre(13, 15));
  Future no_elements = f(HostArray(TensorType{DType::f32, {0}}));
  EXPECT_EQ(g(no_elements.value(0), no_elements.value(1)).value().read().count(), 0);
}

TEST(Array, ACallAcceptsAnArrayTwiceAndWithOtherArguments) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  Array x =
      compile(mesh, [](Tensor t) { return with_layout(t, P("data")); })(HostArray::of<float>({3}, {1, 2, 3})).value();
  auto f = compile(mesh, [](Tensor a, Tensor b, Tensor c, Tensor d) { return a * b + c * d; });
  EXPECT_THAT(list(f(x, x, 10.0f, HostArray::of<float>({3}, {1, 0, 1})).value().read()), ElementsAre(11, 4, 19));
  auto unused = compile(mesh, [](Tensor a, Tensor) { return a; });
  EXPECT_THAT(list(unused(x, x).value().read()), ElementsAre(1, 2, 3)) << "one argument is not used";
}

TEST(Array, TwoFunctionsOnTwoThreadsTakeOneArrayConcurrently) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  auto f = compile(mesh, [](Tensor x) { return with_layout(x + 1, P("data")); });
  auto g = compile(mesh, [](Tensor x) { return sum(x * x); });
  const Array x = f(HostArray::of<double>({3}, {0, 1, 2})).value();
  int mismatches = 0;
  std::thread thread([&] {
    for (int i = 0; i < 100; ++i) mismatches += g(x).item() != 14;
  });
  for (int i = 0; i < 100; ++i) EXPECT_THAT(list<double>(f(x).value().read()), ElementsAre(2, 3, 4));
  thread.join();
  EXPECT_EQ(mismatches, 0);
}

TEST(Array, AnArrayOfAnotherWorldIsAnError) {
  World world({.devices = 2}), other_world({.devices = 2});
  auto f = compile(world.mesh("data=2"), [](Tensor x) { return x + 1; });
  auto g = compile(other_world.mesh("data=2"), [](Tensor x, Tensor) { return x; }, {.name = "g"});
  const Array y = f(small_integers(DType::f32, {4})).value();
  EXPECT_EQ(error_of([&] { g(1.0f, y); }),
            "argument 1 of function 'g' is an array of a different world; pass the host array that read() returns");
}

TEST(Array, AnArrayOnAnotherMeshIsTransferred) {
  World world({.devices = 4});
  auto rows = compile(world.mesh("data=2"), [](Tensor x) { return with_layout(x + 1, P("data", nullptr)); });
  auto columns = compile(world.mesh("model=3", {.devices = {3, 1, 2}}),
                         [](Tensor x) { return with_layout(x * 2, P(nullptr, "model")); });
  const HostArray x = small_integers(DType::f32, {5, 4});
  const Array y = rows(x).value(), z = columns(y).value(), result = rows(z).value();
  EXPECT_EQ(z.mesh().devices[0].device, 3) << "a function must run on the mesh that it is compiled for";
  EXPECT_EQ(result.mesh(), y.mesh());
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const auto index = static_cast<std::size_t>(i);
    EXPECT_EQ(result.read().data<float>()[index], (x.data<float>()[index] + 1) * 2 + 1);
  }
  EXPECT_GT(world.counters().sent_bytes["transfer"], 0);
}

TEST(Array, AWrongTypeOrShapeGivesTheSameErrorAsForAHostArray) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  auto make = compile(mesh, [](Tensor x) { return with_layout(x, x.rank() == 1 ? P("data") : P("data", nullptr)); });
  auto f = compile(mesh, [](Tensor x, Tensor y) { return matmul(x, y); });
  auto error_for = [&](const HostArray& x, const HostArray& y) {
    const std::string host_error = error_of([&] { f(x, y); }),
                      array_error = error_of([&] { f(make(x).value(), make(y).value()); });
    EXPECT_EQ(array_error, host_error);
    EXPECT_THAT(array_error, HasSubstr("array_test.cc:"));
    return array_error;
  };
  EXPECT_THAT(error_for(small_integers(DType::f32, {4, 3}), small_integers(DType::f32, {4, 3})),
              HasSubstr("inner sizes differ: 3 and 4"));
  EXPECT_THAT(error_for(small_integers(DType::f32, {4}), small_integers(DType::f32, {4, 3})), HasSubstr("matmul"));
}

TEST(Array, AnArrayOfAFailedCallReportsTheErrorOfThatCall) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  // The computed index cannot be checked before the launch.
  auto pick = compile(mesh, [](Tensor table, Tensor index) { return gather(table, index * 1); });
  auto next = compile(mesh, [](Tensor x) { return x + 1; });
  const HostArray table = small_integers(DType::f32, {4, 2});
  const Array valid_array = pick(table, HostArray::of<std::int32_t>({2}, {0, 3})).value();
  next(valid_array).wait();
  const Array failed_array = pick(table, HostArray::of<std::int32_t>({2}, {0, 4})).value();
  std::string error = error_of([&] { failed_array.read(); });
  EXPECT_THAT(error, AllOf(HasSubstr("4 at [1] is outside 0 to 3"), HasSubstr("array_test.cc:")));
  EXPECT_EQ(error_of([&] { failed_array.local(); }), error);
  EXPECT_THAT(error_of([&] { next(failed_array).wait(); }), HasSubstr("4 at [1] is outside 0 to 3"));
  EXPECT_THAT(list(valid_array.read()), ElementsAre(-3, 4, 6, 2)) << "earlier results must remain readable";
  world.reset();
  EXPECT_THAT(error_of([&] { next(failed_array); }), HasSubstr("is a result of a launch that failed: "));
  EXPECT_THAT(list(next(valid_array).value().read()), ElementsAre(-2, 5, 7, 3));
}

TEST(Array, AFailureReachesAllCallsThatTakeTheFailedResult) {
  World world({.in_flight = 8});
  // The computed index cannot be checked before the launch.
  auto pick = compile(world.mesh(), [](Tensor table, Tensor index) { return gather(table, index * 1); });
  auto next = compile(world.mesh(), [](Tensor x) { return x + 1; });
  const HostArray table = small_integers(DType::f32, {4, 2});
  next(pick(table, HostArray::of<std::int32_t>({2}, {0, 3})).value()).wait();
  std::vector<Array> chain = {pick(table, HostArray::of<std::int32_t>({2}, {0, 9})).value()};
  std::string call_error;
  for (int i = 0; i < 5 && call_error.empty(); ++i) {
    try {
      chain.push_back(next(chain.back()).value());
    } catch (const Error& error) { call_error = error.what(); }  // the launch had failed before the call
  }
  for (const Array& array : chain)
    EXPECT_THAT(error_of([&] { array.wait(); }), HasSubstr("9 at [1] is outside 0 to 3"));
  if (!call_error.empty()) { EXPECT_THAT(call_error, HasSubstr("9 at [1] is outside 0 to 3")); }
}

TEST(Array, PreparedBatchesOfASourceCanBeUsedRepeatedly) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  std::vector<HostArray> batches;
  for (int first : {0, 5}) {
    batches.emplace_back(TensorType{DType::f32, {5, 1, 1, 2}});
    for (std::size_t row = 0; row < 5; ++row) {
      batches.back().data<float>()[2 * row] = static_cast<float>(first) + static_cast<float>(row);
      batches.back().data<float>()[2 * row + 1] = 255;
    }
  }
  const auto source = std::make_shared<BatchesSource>(batches);
  auto prepare = compile(mesh, [](Tensor x) { return with_layout(flatten(x) * 1, P("data", nullptr)); });
  auto sum_rows = compile(mesh, [](Tensor x) { return sum(x, {0}); });
  std::vector<Array> prepared_batches;
  for (std::int64_t b = 0; b < 2; ++b) prepared_batches.push_back(prepare(Feed{source, b}).value());
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_THAT(list(sum_rows(prepared_batches[0]).value().read()), ElementsAre(10, 5 * 255));
    EXPECT_THAT(list(sum_rows(prepared_batches[1]).value().read()), ElementsAre(35, 5 * 255));
  }
}

struct Net : nn::Module {
  using Module::Module;
  nn::Linear fc{*this, "fc", 6, 4};
};

TEST(Array, AnArrayTrainsAModelLikeAHostArray) {
  auto losses = [](bool use_arrays) {
    World world({.devices = 2});
    DeviceMesh mesh = world.mesh("data=2");
    Net net(DType::f64);
    nn::Linear& fc = net.fc;
    optim::SGD sgd(fc.parameters(), {.lr = 0.1});
    auto step = compile(mesh, [&](Tensor x) {
      Tensor loss = mean(fc(x) * fc(x));
      sgd.step(grad(loss, fc.parameters()));
      return loss;
    });
    auto make = compile(mesh, [](Tensor x) { return with_layout(x * 0.25, P("data", nullptr)); });
    std::vector<double> out;
    const Array x = make(small_integers(DType::f64, {5, 6})).value();
    for (int i = 0; i < 6; ++i) out.push_back((use_arrays ? step(x) : step(x.read())).item());
    return out;
  };
  const auto a = losses(true), b = losses(false);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-10 * std::abs(b[i]));
  EXPECT_LT(a[5], a[0]);
}

}  // namespace
}  // namespace karez
