// Tests of expressions that read variables: they run together when one of them is read, and before a variable changes.
#include "karez/api/trace/deferred_reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "karez/api/functions.h"
#include "karez/api/interactive.h"
#include "karez/api/nn.h"
#include "karez/api/random.h"
#include "karez/api/state/world_state.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/trace/expression.h"
#include "karez/api/trace/trace.h"
#include "karez/base/text.h"

namespace karez {
namespace {
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::int64_t count_programs(const DeviceMesh& mesh) { return mesh.world->expression_plans.compiled; }
bool is_computed(const Tensor& tensor) { return tensor.lazy->producer() == nullptr; }

// A parameter with the value 2 that a compiled function has used, so it is stored.
Parameter stored_parameter(const DeviceMesh& mesh, TensorType type = {DType::f32, {2}}) {
  const Parameter w("w", std::move(type), constant_init(2));
  compile(mesh, [&](Tensor x) { return x + sum(w); })(1.0f).wait();
  return w;
}

TEST(DeferredReads, LayersRunInOneProgramWhenTheirResultIsRead) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  struct Net : nn::Module {
    nn::Linear a{*this, "a", 4, 8}, b{*this, "b", 8, 8}, c{*this, "c", 8, 2};
    Tensor operator()(Tensor x) { return c(relu(b(relu(a(x))))); }
  } net;
  const HostArray x = random_floats({3, 4}, 1);
  const HostArray expected = compile(mesh, [&](Tensor v) { return net(v); })(x).value().read();
  const auto programs = count_programs(mesh);
  const Tensor y = net(x);
  EXPECT_EQ(count_programs(mesh), programs);
  EXPECT_TRUE(equal_bits(y.read(), expected));
  EXPECT_EQ(count_programs(mesh), programs + 1);
  net(x).read();
  EXPECT_EQ(count_programs(mesh), programs + 1);
}

TEST(DeferredReads, AParameterWithoutAVariableIsReadImmediately) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w("w", {DType::f32, {2}}, constant_init(2));
  const Tensor first = w * 1;
  EXPECT_TRUE(is_computed(first));
  w.set_initial_value(vector_of(5, 5));
  EXPECT_THAT(list(first), Each(2));
  const Tensor second = w * 1;
  EXPECT_FALSE(is_computed(second));
  EXPECT_THAT(list(second), Each(2));
}

TEST(DeferredReads, AnInvalidIndexIsReportedImmediately) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w = stored_parameter(mesh, {DType::f32, {2, 2}});
  EXPECT_THAT(error_of([&] { gather(w, HostArray::of<std::int32_t>({1}, {7})); }), HasSubstr("7"));
}

// Indices that the user passes are compared with the size of the table at once, so the rows need not be.
TEST(DeferredReads, RowsAtKnownIndicesAreReadWithTheRest) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w = stored_parameter(mesh, {DType::f32, {3, 2}});
  for (const DType dtype : {DType::i32, DType::i64}) {
    HostArray indices(TensorType{dtype, {3}});
    with_type(dtype, [&]<class T>() {
      const auto words = indices.data<T>();
      if constexpr (std::is_integral_v<T>) words[0] = 0, words[1] = 2, words[2] = 1;
    });
    const auto programs = count_programs(mesh);
    const Tensor row = gather(w, indices), product = relu(row) * 3;
    EXPECT_FALSE(is_computed(row)) << dtype;
    EXPECT_THAT(list(product), Each(6)) << dtype;
    EXPECT_EQ(count_programs(mesh), programs + 1) << dtype;
  }
}

TEST(DeferredReads, RowsAtComputedIndicesAndAfterAnInvalidIndexAreReadImmediately) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w = stored_parameter(mesh, {DType::f32, {3, 2}});
  const Tensor largest = arg_max(constant(vector_of(1, 5)), 0);
  EXPECT_TRUE(is_computed(gather(w, largest)));
  for (const std::int32_t index : {3, -1})
    EXPECT_THAT(error_of([&] {
                  gather(w, HostArray::of<std::int32_t>({2}, {0, index}));
                }),
                HasSubstr(cat("the index ", index, " at [1] is outside 0 to 2; nothing was launched")));
  EXPECT_THAT(list(gather(w, HostArray::of<std::int32_t>({1}, {2}))), Each(2));
}

// Each function changes the parameter from 2 to 3.
TEST(DeferredReads, EveryChangeOfAVariableIsPrecededByThem) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  std::string folder = (std::filesystem::temp_directory_path() / "karez-deferred-reads-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const Parameter w = stored_parameter(mesh);
  auto step = compile(mesh, [&](Tensor x) {
    update(w, w + x);
    return sum(w);
  });
  world.write(w, vector_of(3, 3));
  world.save(folder + "/weights");
  const std::pair<const char*, std::function<void()>> changes[] = {
      {"a compiled function", [&] { step(1.0f).wait(); }},
      {"an update outside of functions", [&] { update(w, w + 1); }},
      {"a write", [&] { world.write(w, vector_of(3, 3)); }},
      {"a write by name", [&] { world.write("w", vector_of(3, 3)); }},
      {"a load", [&] { world.load(folder + "/weights"); }},
  };
  for (const auto& [name, change] : changes) {
    world.write(w, vector_of(2, 2));
    const Tensor product = w * 10;
    Tensor chained;
    {
      const Tensor temporary = w * 100;
      chained = temporary + product;
    }
    ASSERT_FALSE(is_computed(product)) << name;
    change();
    EXPECT_TRUE(is_computed(product) && is_computed(chained)) << name;
    EXPECT_THAT(list(product), Each(20)) << name;
    EXPECT_THAT(list(chained), Each(220)) << name;
    EXPECT_THAT(list(world.read(w)), Each(3)) << name;
    EXPECT_THAT(list(w * 10), Each(30)) << name;
  }
  std::filesystem::remove_all(folder);
}

TEST(DeferredReads, AResetComputesThem) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w = stored_parameter(mesh);
  world.write(w, vector_of(5, 7));
  const Tensor product = w * 10;
  ASSERT_FALSE(is_computed(product));
  world.reset();
  EXPECT_THAT(list(product), ElementsAre(50, 70));
  EXPECT_THAT(list(w * 10), Each(20));
}

struct BrokenSource : data::Source {
  TensorType type() const override { return {DType::f32, {2}}; }
  void read(std::int64_t, std::span<const std::int64_t>, const tensor::TensorRef&) const override {
    base::fail(base::ErrorKind::peer, "the link broke");
  }
};

TEST(DeferredReads, AResetAfterAFailureCannotComputeThem) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w = stored_parameter(mesh);
  const auto twice = compile(mesh, [](Tensor x) { return x * 2; });
  EXPECT_THROW(twice(Feed{std::make_shared<BrokenSource>(), 0}).wait(), Error);
  const Tensor product = w * 10;
  ASSERT_FALSE(is_computed(product));
  world.reset();
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(error_of([&] { product.read(); }),
                HasSubstr("a tensor that depends on variables was not computed before the world was reset"));
  EXPECT_THAT(list(w * 10), Each(20));
}

TEST(DeferredReads, RandomNumbersDoNotComputeThem) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w = stored_parameter(mesh);
  const Tensor product = w * 10;
  const Tensor noise = random_uniform({2});
  EXPECT_FALSE(is_computed(product));
  const Tensor sum_of_both = product + noise;
  EXPECT_FALSE(is_computed(sum_of_both));
  EXPECT_GE(list(sum_of_both)[0], 20);
}

TEST(DeferredReads, ATensorThatNobodyCanReadIsNotComputed) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w = stored_parameter(mesh);
  const auto programs = count_programs(mesh);
  for (int i = 0; i < 1000; ++i) w* i;
  world.write(w, vector_of(3, 3));
  EXPECT_EQ(count_programs(mesh), programs);
}

TEST(DeferredReads, TheirNumberIsBounded) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w = stored_parameter(mesh);
  const auto programs = count_programs(mesh);
  std::vector<Tensor> products;
  std::size_t most = 0, waiting = 0;
  for (int i = 0; i < 1000; ++i) {
    products.push_back(w * i);
    waiting = 0;
    for (const Tensor& product : products) waiting += is_computed(product) ? 0 : 1;
    most = std::max(most, waiting);
  }
  EXPECT_LE(most, 256u);
  EXPECT_GT(most, 1u);
  world.write(w, vector_of(3, 3));
  for (int i = 0; i < 1000; ++i) EXPECT_THAT(list(products[static_cast<std::size_t>(i)]), Each(2 * i));
  EXPECT_EQ(count_programs(mesh), programs + 1) << "all of them have one structure";
}

TEST(DeferredReads, LongSumsOfResultsRunInPrograms) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w = stored_parameter(mesh);
  const auto programs = count_programs(mesh);
  Tensor total = w * 0;
  std::int64_t longest = 0;
  for (int i = 1; i <= 500; ++i) {
    Tensor x = w * 1;
    for (int layer = 0; layer < 10; ++layer) x = x + w - w;
    total = total + x;
    longest = std::max(longest, total.lazy->producer() == nullptr
                                    ? 0
                                    : total.lazy->producer()->last_read - total.lazy->producer()->first_read);
  }
  EXPECT_LE(longest, max_expression_reads);
  EXPECT_THAT(list(total), Each(1000));
  EXPECT_LE(count_programs(mesh) - programs, 12);
}

TEST(DeferredReads, SplitVariablesAreReadOnTheirMesh) {
  World world({.devices = 3});
  const DeviceMesh single = world.mesh(), mesh = world.mesh("data=3");
  Interactive scope(single);
  const Parameter w("w", {DType::f32, {7, 2}}, constant_init(2));
  compile(mesh, [&](Tensor x) { return x + sum(w); }, {.rules = {{"w", P("data", nullptr)}}})(1.0f).wait();
  const Tensor doubled = w * 2, total = sum(doubled);
  EXPECT_FALSE(is_computed(total));
  world.write(w, HostArray(TensorType{DType::f32, {7, 2}}));
  EXPECT_EQ(total.array().mesh(), mesh.mesh);
  EXPECT_EQ(list(total)[0], 56);
  EXPECT_THAT(list(doubled), Each(4));
}

// An exception that is no Error, such as that of a signal handler, ends the run.
TEST(DeferredReads, AnInterruptedRunIsContinuedByTheNext) {
  static int runs = 0, interrupt_at = 0;
  const DeferredReads::Functions functions = {.may_be_read = [](const Expression&) { return true; },
                                              .run =
                                                  [](Expression& expression) {
                                                    if (++runs == interrupt_at) throw std::runtime_error("interrupted");
                                                    expression.depth = 100;
                                                  }};
  runs = 0, interrupt_at = 2;
  DeferredReads reads;
  std::vector<std::shared_ptr<Expression>> expressions;
  for (int i = 0; i < 4; ++i) expressions.push_back(std::make_shared<Expression>());
  for (const auto& expression : expressions) reads.add(expression, functions);
  EXPECT_THROW(reads.run(), std::runtime_error);
  EXPECT_EQ(runs, 2);
  reads.run();
  EXPECT_EQ(runs, 5) << "the one that was interrupted runs again, and two have not run before";
  for (const auto& expression : expressions) EXPECT_EQ(expression->depth, 100);
  reads.run();
  EXPECT_EQ(runs, 5);
}

// The parameters are stored on different meshes, which a gradient outside of functions does not support.
TEST(DeferredReads, AnErrorIsReportedByTheReadThatNeedsTheTensor) {
  World world({.devices = 2});
  const DeviceMesh first = world.mesh("", {.first = 0}), second = world.mesh("", {.first = 1});
  Interactive scope(first);
  const Parameter a("a", {DType::f32, {2}}, constant_init(2)), b("b", {DType::f32, {2}}, constant_init(2));
  compile(first, [&](Tensor x) { return x + sum(a); })(1.0f).wait();
  compile(second, [&](Tensor x) { return x + sum(b); })(1.0f).wait();
  const auto result =
      value_and_grad([&](Tensor x) { return sum(x * (a + b)); }, {.parameters = {a}})(Tensor(vector_of(1)));
  const Tensor later = result.value * 2;
  world.write(a, vector_of(3, 3));
  EXPECT_THAT(list(world.read(a)), Each(3));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(error_of([&] { result.value.read(); }), HasSubstr("variable 'b' is on"));
    EXPECT_THAT(error_of([&] { later.read(); }), HasSubstr("variable 'b' is on"));
  }
}

}  // namespace
}  // namespace karez
