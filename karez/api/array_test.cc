// Tests of arrays: results of calls stay on the mesh, later calls take them in their layout, their bytes are counted,
// and they outlive functions and resets.
#include "karez/api/array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "karez/api/batches.h"
#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/state/world_state.h"
#include "karez/api/test_texts.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Integers from -3, so that products and sums are exact in every dtype.
HostArray numbers(DType dtype, Shape shape) {
  HostArray out(TensorType{dtype, std::move(shape)});
  with_type(dtype, [&]<class T>() {
    auto data = out.data<T>();
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<T>(static_cast<int>(i * 7 % 11) - 3);
  });
  return out;
}

void expect_bits(const HostArray& a, const HostArray& b, const std::string& what) {
  ASSERT_EQ(a.type(), b.type()) << what;
  EXPECT_EQ(std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.view().bytes())), 0) << what;
}

struct Setting {
  const char* mesh;
  std::vector<std::string> rows, columns;  // two layouts of a matrix
};
const Setting settings[] = {{"", {"", ""}, {"", ""}},
                            {"data=2", {"data", ""}, {"", "data"}},
                            {"data=3", {"data", ""}, {"", "data"}},
                            {"data=2,model=2", {"data", "model"}, {"", "data+model"}}};

// Whether an input of the plan is read by the host.
bool reads_on_host(const Function& f) {
  return std::any_of(f.plan().actors.begin(), f.plan().actors.end(), [&](const Actor& a) {
    return a.body == BodyKind::input && f.plan().stream(a.stream).name == "host";
  });
}

TEST(Array, AChainOfCallsEqualsCallsThroughTheHostBitForBit) {
  for (const Setting& setting : settings)
    for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      const std::string what = cat(setting.mesh, " ", name_of(dtype));
      const Mesh shape = Mesh::parse(setting.mesh);
      World world({.devices = shape.size()});
      DeviceMesh mesh = world.mesh(shape.axes);
      auto body = [&](Tensor x) { return with_layout(x * 2 - select(x > 1, x, 1), setting.rows); };
      auto f = compile(mesh, body), by_host = compile(mesh, body);
      const HostArray x = numbers(dtype, {5, 7});
      Array y = f(x).value();
      EXPECT_EQ(y.layout().size(), shape.axes.size());
      f(y).wait();
      const std::int64_t copies = mesh.world->copies.allocated();
      const auto sent = world.counters().sent_bytes;
      for (int i = 0; i < 5; ++i) y = f(y).value();
      expect_bits(
          y.read(),
          [&] {
            HostArray z = by_host(x).value().read();
            for (int i = 0; i < 5; ++i) z = by_host(z).value().read();
            return z;
          }(),
          what);
      f(y).wait();
      EXPECT_EQ(f.signatures(), 2) << what << ": for a host array, and for an array in its layout";
      EXPECT_FALSE(reads_on_host(f)) << what;
      EXPECT_TRUE(f.plan().transfers.empty()) << what << ": its layout is the requested one\n" << f.plan_text();
      EXPECT_TRUE(reads_on_host(by_host)) << what;
      EXPECT_EQ(world.counters().sent_bytes, sent) << what;
      EXPECT_GE(mesh.world->copies.allocated(), copies) << what;
    }
}

TEST(Array, AChainOfCallsCopiesNothingToTheHost) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  auto f = compile(mesh, [](Tensor x) { return with_layout(x + 1, P("data")); });
  Array y = f(numbers(DType::f32, {9})).value();
  y = f(y).value();
  y.wait();
  const std::int64_t copies = mesh.world->copies.allocated(), held = mesh.world->copies.pooled_bytes();
  for (int i = 0; i < 50; ++i) y = f(y).value();
  EXPECT_EQ(mesh.world->copies.allocated(), copies);
  EXPECT_EQ(mesh.world->copies.pooled_bytes(), held);
  const HostArray x = numbers(DType::f32, {9}), got = y.read();
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(got.data<float>()[i], x.data<float>()[i] + 52);
}

// Sums over split dimensions, transposed layouts, products: the plan converts arguments in other layouts, and every
// transfer is counted.
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
    const HostArray x = numbers(DType::f64, {5, 6});
    Future made = make(x);
    Future used = use(made.value(0), made.value(1)), again = use(made.value(0).read(), made.value(1).read());
    for (std::size_t i = 0; i < 3; ++i) {
      expect_bits(used.value(i).read(), again.value(i).read(), cat(setting.mesh, " ", i));
      EXPECT_EQ(used.value(i).layout(), Layout(shape.axes.size(), B())) << "Broadcast by default";
    }
    use(made.value(0), made.value(1)).wait();
    std::int64_t planned = 0, before = 0, after = 0;
    for (const Transfer& transfer : use.plan().transfers) planned += transfer.bytes;
    for (const auto& [kind, bytes] : world.counters().sent_bytes) before += bytes;
    use(made.value(0), made.value(1)).wait();
    for (const auto& [kind, bytes] : world.counters().sent_bytes) after += bytes;
    EXPECT_EQ(after - before, planned) << setting.mesh;
    EXPECT_EQ(planned > 0, shape.size() > 1) << setting.mesh;
  }
}

TEST(Array, AnArrayHasTypeLayoutAndParts) {
  World world({.devices = 3});
  DeviceMesh mesh = world.mesh("data=3");
  auto f =
      compile(mesh, [](Tensor x) { return std::tuple(with_layout(x, P("data")), x + 1, with_layout(x, P(nullptr))); });
  Future out = f(numbers(DType::i32, {4}));
  EXPECT_EQ(out.size(), 3u);
  const Array split = out.value(0), whole = out.value(1);
  EXPECT_EQ(split.type(), (TensorType{DType::i32, {4}}));
  EXPECT_EQ(split.layout(), Layout{S(0)});
  EXPECT_EQ(split.mesh(), mesh.mesh);
  EXPECT_EQ(whole.layout(), Layout{B()});
  EXPECT_EQ(out.value(2).layout(), Layout{B()});
  ASSERT_EQ(split.local().size(), 3u);
  EXPECT_THAT(list<std::int32_t>(split.local()[0]), ElementsAre(-3, 4));
  EXPECT_THAT(list<std::int32_t>(split.local()[1]), ElementsAre(0));
  EXPECT_THAT(list<std::int32_t>(split.local()[2]), ElementsAre(7));
  EXPECT_THAT(list<std::int32_t>(split.read()), ElementsAre(-3, 4, 0, 7));
  for (const HostArray& part : whole.local()) EXPECT_THAT(list<std::int32_t>(part), ElementsAre(-2, 5, 1, 8));
  EXPECT_TRUE(split.done());
  EXPECT_EQ(error_of([&] { out.value(3); }), "the call has 3 results; there is no result 3");
  EXPECT_EQ(error_of([&] { split.item(); }), "an array is i32[4]; item reads a single element");
  EXPECT_EQ(error_of([&] { Array().read(); }), "an uninitialised array; Future::value returns arrays");
  EXPECT_FALSE(Array().valid());
}

TEST(Array, BytesOfAWholeCopyAreReadInPlace) {
  std::shared_ptr<const std::byte> kept;
  const HostArray x = numbers(DType::f32, {4, 3});
  {
    World world({.devices = 2});
    const DeviceMesh mesh = world.mesh("data=2");
    Function whole = compile(mesh, [](Tensor a) { return a + 1; });
    Function split = compile(mesh, [](Tensor a) { return with_layout(a + 1, {"data", ""}); });
    const Array made = whole(x).value();
    EXPECT_EQ(split(x).value().bytes(), nullptr);
    kept = made.bytes();
    ASSERT_NE(kept, nullptr);
    EXPECT_EQ(kept, made.bytes());
    const HostArray read = made.read();
    EXPECT_EQ(std::memcmp(kept.get(), read.bytes(), 48), 0);
  }
  EXPECT_EQ(reinterpret_cast<const float*>(kept.get())[0], x.data<float>()[0] + 1) << "valid after the world's end";
}

TEST(Array, PartsWithoutElementsAndScalarsAreArraysToo) {
  World world({.devices = 3});
  DeviceMesh mesh = world.mesh("data=3");
  auto f = compile(mesh, [](Tensor x) { return std::pair(with_layout(x * 2, P("data")), sum(x)); });
  auto g = compile(mesh, [](Tensor x, Tensor s) { return x + s; });
  Future made = f(HostArray::of<float>({2}, {3, 4}));
  EXPECT_EQ(made.value(0).local()[2].count(), 0);
  EXPECT_THAT(list(g(made.value(0), made.value(1)).value().read()), ElementsAre(13, 15));
  Future none = f(HostArray(TensorType{DType::f32, {0}}));
  EXPECT_EQ(g(none.value(0), none.value(1)).value().read().count(), 0);
}

TEST(Array, OneArrayTwiceInACallAndAmongOtherArguments) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  Array x =
      compile(mesh, [](Tensor t) { return with_layout(t, P("data")); })(HostArray::of<float>({3}, {1, 2, 3})).value();
  auto f = compile(mesh, [](Tensor a, Tensor b, Tensor c, Tensor d) { return a * b + c * d; });
  EXPECT_THAT(list(f(x, x, 10.0f, HostArray::of<float>({3}, {1, 0, 1})).value().read()), ElementsAre(11, 4, 19));
  auto unused = compile(mesh, [](Tensor a, Tensor) { return a; });
  EXPECT_THAT(list(unused(x, x).value().read()), ElementsAre(1, 2, 3)) << "an unused argument";
}

TEST(Array, AThousandCallsInSequenceEachTakeThePendingResultOfThePrevious) {
  World world({.devices = 2, .in_flight = 4});
  DeviceMesh mesh = world.mesh("data=2");
  auto f = compile(mesh, [](Tensor x) { return with_layout(x + 1, P("data")); });
  auto g = compile(mesh, [](Tensor x) { return with_layout(x + 2, P("data")); });
  Array y = f(HostArray::of<std::int64_t>({5}, {0, 1, 2, 3, 4})).value();
  for (int i = 0; i < 1000; ++i) y = i % 3 == 0 ? g(y).value() : f(y).value();
  EXPECT_THAT(list<std::int64_t>(y.read()), ElementsAre(1335, 1336, 1337, 1338, 1339));
  EXPECT_EQ(world.held_bytes(), 5 * 8) << "only those of the last array";
}

TEST(Array, TwoFunctionsOnTwoThreadsTakeOneArrayConcurrently) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  auto f = compile(mesh, [](Tensor x) { return with_layout(x + 1, P("data")); });
  auto g = compile(mesh, [](Tensor x) { return sum(x * x); });
  const Array x = f(HostArray::of<double>({3}, {0, 1, 2})).value();
  int wrong = 0;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) wrong += g(x).item() != 14;
  });
  for (int i = 0; i < 100; ++i) EXPECT_THAT(list<double>(f(x).value().read()), ElementsAre(2, 3, 4));
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Array, HeldBytesAreFreedWithTheLastHandleAndAreNotPartOfThePlansMemory) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  auto f = compile(mesh, [](Tensor x) { return std::pair(with_layout(x + 1, P("data")), x * 2); });
  EXPECT_EQ(world.held_bytes(), 0);
  std::optional<Future> out = f(numbers(DType::f32, {1000}));
  out->wait();
  EXPECT_EQ(world.held_bytes(), 4000 + 2 * 4000) << "one split result, and a copy of the other on each device";
  const auto peak = world.counters().peak_bytes;
  std::vector<Array> kept;
  for (int i = 0; i < 10; ++i) kept.push_back(f(out->value(0)).value(0));
  kept.back().wait();
  EXPECT_EQ(world.held_bytes(), 3 * 4000 + 10 * 4000) << "only the first value of each later call";
  Array copy = kept[3];
  kept.clear();
  EXPECT_EQ(world.held_bytes(), 4 * 4000);
  out.reset();
  EXPECT_EQ(world.held_bytes(), 4000);
  EXPECT_EQ(world.counters().held_bytes.at("0.1"), 2000);
  copy = {};
  EXPECT_EQ(world.held_bytes(), 0);
  f(numbers(DType::f32, {1000})).wait();
  EXPECT_EQ(world.held_bytes(), 0) << "no handle remains";
  EXPECT_GE(peak.at("0.0"), 0);
}

TEST(Array, MemoryLimitsApplyToPlansAndNotToArrays) {
  World world({.memory = 1 << 20});
  auto f = compile(world.mesh(), [](Tensor x) { return x + 1; });
  std::vector<Array> kept;
  for (int i = 0; i < 20; ++i) kept.push_back(f(numbers(DType::f32, {50000})).value());
  kept.back().wait();
  EXPECT_EQ(world.held_bytes(), 20 * 200000);
}

TEST(Array, OutlivesItsFutureItsFunctionAndAReset) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  Array y;
  {
    auto f = compile(mesh, [](Tensor x) { return with_layout(x + 1, P("data")); });
    y = f(HostArray::of<float>({3}, {1, 2, 3})).value();
  }
  EXPECT_THAT(list(y.read()), ElementsAre(2, 3, 4));
  world.reset();
  EXPECT_THAT(list(y.read()), ElementsAre(2, 3, 4));
  EXPECT_THAT(list(compile(mesh, [](Tensor x) { return x * 2; })(y).value().read()), ElementsAre(4, 6, 8));
}

TEST(Array, UseAfterItsWorldEndedIsAnErrorAndNotACrash) {
  Array y, late;
  std::optional<Future> future;
  {
    World world({.devices = 2});
    auto f = compile(world.mesh("data=2"), [](Tensor x) { return with_layout(x + 1, P("data")); });
    y = f(numbers(DType::f32, {1 << 16})).value();
    for (int i = 0; i < 3; ++i) y = f(y).value();
    Future last = f(y);
    late = last.value();
    future = last;
  }
  late.wait();  // the future keeps the world alive
  EXPECT_EQ(late.read().data<float>()[0], -3 + 5);
  future.reset();
  for (auto ask : {+[](const Array& a) { a.read(); }, +[](const Array& a) { a.local(); },
                   +[](const Array& a) { a.wait(); }, +[](const Array& a) { (void)a.done(); }})
    EXPECT_EQ(
        error_of([&] { ask(y); }),
        "an array f32[65536@data] of a world that no longer exists: read it while the World, or a mesh, function or "
        "future of it, is alive");
  World other;
  auto f = compile(other.mesh(), [](Tensor x) { return x; });
  EXPECT_THAT(error_of([&] { f(y); }), HasSubstr("of a world that no longer exists"));
  EXPECT_EQ(y.type(), (TensorType{DType::f32, {1 << 16}}));
  EXPECT_EQ(y.layout(), Layout{S(0)});
}

TEST(Array, AnArrayOfAnotherWorldIsAnError) {
  World world({.devices = 2}), other({.devices = 2});
  auto f = compile(world.mesh("data=2"), [](Tensor x) { return x + 1; });
  auto g = compile(other.mesh("data=2"), [](Tensor x, Tensor) { return x; }, {.name = "g"});
  const Array y = f(numbers(DType::f32, {4})).value();
  EXPECT_EQ(error_of([&] { g(1.0f, y); }),
            "argument 1 of function 'g' is an array of another world; pass the host array that read() returns");
}

TEST(Array, AnArrayOnAnotherMeshIsTransferred) {
  World world({.devices = 4});
  auto rows = compile(world.mesh("data=2"), [](Tensor x) { return with_layout(x + 1, P("data", nullptr)); });
  auto columns = compile(world.mesh("model=3", {.devices = {3, 1, 2}}),
                         [](Tensor x) { return with_layout(x * 2, P(nullptr, "model")); });
  const HostArray x = numbers(DType::f32, {5, 4});
  const Array y = rows(x).value(), z = columns(y).value(), back = rows(z).value();
  EXPECT_EQ(z.mesh().devices[0].device, 3) << "the function runs on its own mesh";
  EXPECT_EQ(back.mesh(), y.mesh());
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(back.read().data<float>()[at], (x.data<float>()[at] + 1) * 2 + 1);
  }
  EXPECT_GT(world.counters().sent_bytes["transfer"], 0);
}

TEST(Array, AWrongTypeOrShapeGivesTheErrorOfAHostArray) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  auto make = compile(mesh, [](Tensor x) { return with_layout(x, x.rank() == 1 ? P("data") : P("data", nullptr)); });
  auto f = compile(mesh, [](Tensor x, Tensor y) { return matmul(x, y); });
  auto refused = [&](const HostArray& x, const HostArray& y) {
    const std::string by_host = error_of([&] { f(x, y); }),
                      by_array = error_of([&] { f(make(x).value(), make(y).value()); });
    EXPECT_EQ(by_array, by_host);
    EXPECT_THAT(by_array, HasSubstr("array_test.cc:"));
    return by_array;
  };
  EXPECT_THAT(refused(numbers(DType::f32, {4, 3}), numbers(DType::f32, {4, 3})),
              HasSubstr("inner sizes differ: 3 and 4"));
  EXPECT_THAT(refused(numbers(DType::f32, {4}), numbers(DType::f32, {4, 3})), HasSubstr("matmul"));
}

TEST(Array, AnArrayOfAFailedCallReportsTheErrorOfThatCall) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  // The computed index cannot be checked before the launch.
  auto pick = compile(mesh, [](Tensor table, Tensor index) { return gather(table, index * 1); });
  auto next = compile(mesh, [](Tensor x) { return x + 1; });
  const HostArray table = numbers(DType::f32, {4, 2});
  const Array good = pick(table, HostArray::of<std::int32_t>({2}, {0, 3})).value();
  next(good).wait();
  const Array bad = pick(table, HostArray::of<std::int32_t>({2}, {0, 4})).value();
  std::string failed = error_of([&] { bad.read(); });
  EXPECT_THAT(failed, AllOf(HasSubstr("4 at [1] is outside 0 to 3"), HasSubstr("array_test.cc:")));
  EXPECT_EQ(error_of([&] { bad.local(); }), failed);
  EXPECT_THAT(error_of([&] { next(bad).wait(); }), HasSubstr("4 at [1] is outside 0 to 3"));
  EXPECT_THAT(list(good.read()), ElementsAre(-3, 4, 6, 2)) << "earlier results remain";
  world.reset();
  EXPECT_THAT(error_of([&] { next(bad); }), HasSubstr("is a result of a launch that failed: "));
  EXPECT_THAT(list(next(good).value().read()), ElementsAre(-2, 5, 7, 3));
}

TEST(Array, AFailureReachesAllCallsThatTakeTheFailedResult) {
  World world({.in_flight = 8});
  // The computed index cannot be checked before the launch.
  auto pick = compile(world.mesh(), [](Tensor table, Tensor index) { return gather(table, index * 1); });
  auto next = compile(world.mesh(), [](Tensor x) { return x + 1; });
  const HostArray table = numbers(DType::f32, {4, 2});
  next(pick(table, HostArray::of<std::int32_t>({2}, {0, 3})).value()).wait();
  std::vector<Array> row = {pick(table, HostArray::of<std::int32_t>({2}, {0, 9})).value()};
  std::string refused;
  for (int i = 0; i < 5 && refused.empty(); ++i) {
    try {
      row.push_back(next(row.back()).value());
    } catch (const Error& error) { refused = error.what(); }  // the failure came first
  }
  for (const Array& array : row) EXPECT_THAT(error_of([&] { array.wait(); }), HasSubstr("9 at [1] is outside 0 to 3"));
  if (!refused.empty()) { EXPECT_THAT(refused, HasSubstr("9 at [1] is outside 0 to 3")); }
}

TEST(Array, BatchesOfASourceAreMadeOnceAndUsedRepeatedly) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  LabelledImages rows{{10, 1, 2}, {}, {}};
  for (int i = 0; i < 10; ++i) {
    rows.labels.push_back(static_cast<std::uint8_t>(i));
    rows.images.insert(rows.images.end(), {static_cast<std::uint8_t>(i), 255});
  }
  const Batches batches(rows, {.batch = 5, .train = false});
  auto prepared = compile(mesh, [](Tensor x) { return with_layout(flatten(x) * 255, P("data", nullptr)); });
  auto used = compile(mesh, [](Tensor x) { return sum(x, {0}); });
  std::vector<Array> all;
  for (std::int64_t b = 0; b < 2; ++b) all.push_back(prepared(Feed{batches.images(), b}).value());
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_THAT(list(used(all[0]).value().read()), ElementsAre(10, 5 * 255));
    EXPECT_THAT(list(used(all[1]).value().read()), ElementsAre(35, 5 * 255));
  }
}

struct Net : nn::Module {
  using Module::Module;
  nn::Linear fc{*this, "fc", 6, 4};
};

TEST(Array, TrainsAModelLikeAHostArray) {
  auto losses = [](bool arrays) {
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
    const Array x = make(numbers(DType::f64, {5, 6})).value();
    for (int i = 0; i < 6; ++i) out.push_back((arrays ? step(x) : step(x.read())).item());
    return out;
  };
  const auto a = losses(true), b = losses(false);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-10 * std::abs(b[i]));
  EXPECT_LT(a[5], a[0]);
}

}  // namespace
}  // namespace karez
