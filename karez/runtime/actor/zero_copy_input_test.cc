// Tests of inputs that kernels read directly at the address of a source or of an earlier result, and of inputs that
// must be copied.
#include <gtest/gtest.h>

#include <cstring>

#include "karez/data/array_source.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

const PlanDevice first_device;

// A plan with the actors in -> look. The kernel of `look` records the address of its operand and writes the sum of
// (i + 1) * row i to the variable "sum".
struct RecordingPlan {
  std::vector<const std::byte*> seen;
  KernelTable kernels = [this] {
    std::vector<KernelRow> rows = test_kernels();
    rows.push_back(test_row("look", [this](const CallSpec& c) -> PreparedKernel {
      return [this, view = c.in[0]](const KernelArgs& args) {
        seen.push_back(args.in[0]);
        float sum = 0;
        for (std::int64_t i = 0; i < view.shape[0]; ++i)
          for (std::int64_t j = 0; j < view.shape[1]; ++j)
            sum += static_cast<float>(i + 1) * test_data(args.in[0])[i * view.strides[0] + j * view.strides[1]];
        test_data(args.out[0])[0] = sum;
      };
    }));
    return KernelTable(std::move(rows));
  }();
  PlanBuilder s;
  ActorId in = s.actor("in", 0, 0, BodyKind::input), look = s.actor("look");
  RegisterId x;

  // `slices`: for each act, the begin of its part of a [rows, 16] batch.
  RecordingPlan(const View& part, const std::vector<Ints>& slices, std::int64_t rows, int slots = 1) {
    const int acts = static_cast<int>(slices.size());
    s.start(in, acts);
    x = s.edge(in, {look}, slots, part.bytes());
    s.done(look, acts);
    Actor& a = s.plan.actors[in];
    a.binding = "x";
    a.bound = {in_register(x, part)};
    for (const Ints& begin : slices) a.slices.push_back(Attrs{{"begin", begin}, {"shape", Ints{rows, 16}}});
    s.call(look, "test.look", {in_register(x, part)},
           {in_block(s.block(BlockKind::variable, 0, 4, "sum", "f32[]"), View(DType::f32, {}))});
  }
  float sum(Session& session) {
    return session.read_variable("sum", first_device, View(DType::f32, {})).data<float>()[0];
  }
};

HostArray make_counting(Shape shape) {
  HostArray array(TensorType{DType::f32, std::move(shape)});
  for (std::size_t i = 0; i < static_cast<std::size_t>(array.count()); ++i)
    array.data<float>()[i] = static_cast<float>(i);
  return array;
}

float sum_of(const HostArray& array, std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
  float sum = 0;
  for (std::int64_t i = row; i < row + rows; ++i)
    for (std::int64_t j = column; j < column + columns; ++j)
      sum += static_cast<float>(i - row + 1) * array.data<float>()[static_cast<std::size_t>(i * 16 + j)];
  return sum;
}

TEST(ZeroCopyInput, AnArrayIsReadInPlace) {
  for (int slots : {1, 2}) {
    RecordingPlan l(View(DType::f32, {4, 16}), {{4, 0}}, 8, slots);
    Session session({.workers = 1, .poison = false}, l.kernels);
    const int plan = session.load(l.s.plan);
    for (int launch = 0; launch < 3; ++launch) {
      const HostArray array = make_counting({8, 16});
      session.launch(plan, {{"x", {data::array_source(array), 0}}}).wait();
      EXPECT_EQ(l.seen.back(), array.bytes() + 4 * 16 * 4);
      EXPECT_EQ(l.sum(session), sum_of(array, 4, 0, 4, 16));
    }
  }
}

TEST(ZeroCopyInput, ACopyFromAnArrayCopyPoolIsReadInPlace) {
  RecordingPlan l(View(DType::f32, {8, 16}), {{0, 0}}, 8);
  Session session({.workers = 1, .poison = false}, l.kernels);
  const int plan = session.load(l.s.plan);
  data::ArrayCopyPool copies;
  HostArray array = make_counting({8, 16});
  const float sum = sum_of(array, 0, 0, 8, 16);
  auto source = copies.copy(array);
  array.data<float>()[0] = 1e6f;  // the caller may overwrite it now
  const std::byte* address = source->find(0, Ints{0, 0}, View(DType::f32, {8, 16}));
  ASSERT_NE(address, nullptr);
  session.launch(plan, {{"x", {source, 0}}}).wait();
  EXPECT_EQ(l.seen.back(), address);
  EXPECT_EQ(l.sum(session), sum);
}

TEST(ZeroCopyInput, EachActOfALaunchReadsItsOwnPart) {
  for (int slots : {1, 2}) {
    RecordingPlan l(View(DType::f32, {4, 16}), {{0, 0}, {4, 0}}, 8, slots);
    Session session({.workers = 1, .poison = false}, l.kernels);
    const HostArray array = make_counting({8, 16});
    session.launch(session.load(l.s.plan), {{"x", {data::array_source(array), 0}}}).wait();
    EXPECT_EQ(l.seen, (std::vector<const std::byte*>{array.bytes(), array.bytes() + 4 * 16 * 4}));
    EXPECT_EQ(l.sum(session), sum_of(array, 4, 0, 4, 16));
  }
}

// In the first case, the rows of the array have 16 elements and the rows of the register 8. In the second case, the
// bytes of the source have a different offset in a cache line than the register.
TEST(ZeroCopyInput, DataWithDifferentStridesOrAlignmentIsCopied) {
  RecordingPlan narrow(View(DType::f32, {8, 8}), {{0, 8}}, 8);
  Session session({.workers = 1, .poison = false}, narrow.kernels);
  const HostArray array = make_counting({8, 16});
  const int plan = session.load(narrow.s.plan);
  session.launch(plan, {{"x", {data::array_source(array), 0}}}).wait();
  EXPECT_TRUE(narrow.seen.back() < array.bytes() || narrow.seen.back() >= array.bytes() + array.view().bytes());
  EXPECT_EQ(narrow.sum(session), sum_of(array, 0, 8, 8, 8));

  RecordingPlan odd(View(DType::f32, {4, 16}), {{0, 0}}, 4);
  Session other({.workers = 1, .poison = false}, odd.kernels);
  struct UnalignedSource : data::Source {  // begins four bytes after the start of a cache line
    HostArray all = make_counting({5, 16});
    TensorType type() const override { return {DType::f32, {4, 16}}; }
    void read(std::int64_t, std::span<const std::int64_t>, const TensorRef& out) const override {
      std::memcpy(out.data, all.bytes() + 4, 4 * 16 * 4);
    }
    const std::byte* find(std::int64_t, std::span<const std::int64_t>, const View&) const override {
      return all.bytes() + 4;
    }
  };
  auto unaligned = std::make_shared<UnalignedSource>();
  other.launch(other.load(odd.s.plan), {{"x", {unaligned, 0}}}).wait();
  EXPECT_NE(odd.seen.back(), unaligned->all.bytes() + 4);
  float expected = 0;
  for (int i = 1; i <= 64; ++i) expected += static_cast<float>(i * ((i - 1) / 16 + 1));
  EXPECT_EQ(odd.sum(other), expected);
}

TEST(ZeroCopyInput, ARegisterThatTwoOperandsFillHoldsBothParts) {
  RecordingPlan l(View(DType::f32, {8, 16}), {{0, 0}}, 8);
  const View half(DType::f32, {4, 16});
  Actor& in = l.s.plan.actors[l.in];
  in.bound = {in_register(l.x, half), in_register(l.x, half, half.bytes())};
  in.slices.push_back(Attrs{{"begin", Ints{4, 0}}, {"shape", Ints{8, 16}}});
  Session session({.workers = 1, .poison = false}, l.kernels);
  const HostArray array = make_counting({8, 16});
  session.launch(session.load(l.s.plan), {{"x", {data::array_source(array), 0}}}).wait();
  EXPECT_EQ(l.sum(session), sum_of(array, 0, 0, 8, 16));
}

// The result is y = x of shape [8, 16], which the session stores in row-major order.
TEST(ZeroCopyInput, AResultIsReadCorrectlyWithEqualAndDifferentStrides) {
  for (const View& part : {View(DType::f32, {8, 16}), View(DType::f32, {8, 16}, {1, 8})}) {
    RecordingPlan l(part, {{0, 0}}, 8);
    Session session({.workers = 1, .poison = false}, l.kernels);
    PlanBuilder s;
    ActorId in = s.actor("in", 0, 0, BodyKind::input), out = s.actor("out", 0, 0, BodyKind::fetch);
    const View dense(DType::f32, {8, 16});
    RegisterId x = s.edge(in, {out}, 1, dense.bytes());
    s.start(in);
    s.done(out);
    s.plan.actors[in].binding = "x", s.plan.actors[out].binding = "y";
    s.plan.actors[in].bound = s.plan.actors[out].bound = {in_register(x, dense)};
    s.plan.actors[in].slices = {Attrs{{"begin", Ints{0, 0}}, {"shape", Ints{8, 16}}}};
    const int producer_plan = session.load(s.plan), consumer_plan = session.load(l.s.plan);
    const HostArray array = make_counting({8, 16});
    const Result result = session.launch(producer_plan, {{"x", {data::array_source(array), 0}}}).result("y");
    for (int i = 0; i < 2; ++i) session.launch(consumer_plan, {}, {{"x", result}}).wait();
    EXPECT_EQ(l.sum(session), sum_of(array, 0, 0, 8, 16));
    EXPECT_EQ(l.seen[0], l.seen[1]);
    const HostArray values = result.read();
    EXPECT_EQ(values.data<float>()[17], 17.0f);
  }
}

}  // namespace
}  // namespace karez::runtime
