// Tests of how long a function keeps signatures, plans, memory and the bytes of its arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <thread>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/state/world_state.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

HostArray filled(Shape shape, float value) {
  HostArray out(TensorType{DType::f32, std::move(shape)});
  std::fill(out.data<float>().begin(), out.data<float>().end(), value);
  return out;
}

// Waits until the world's session holds this many plans, because plans are unloaded asynchronously. Returns false if
// this takes more than a minute.
bool wait_for_plans(const DeviceMesh& mesh, int plans) {
  auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (mesh.world->session.plans() != plans) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

std::int64_t resident_bytes() {
  malloc_trim(0);  // returns free memory to the system, so that it does not count as growth
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

TEST(Keep, TheLeastRecentlyCalledSignatureIsDropped) {
  World world;
  int traces = 0;
  auto f = compile(world.mesh(),
                   [&](Tensor x) {
                     ++traces;
                     return sum(x);
                   },
                   {.keep = 3});
  auto call = [&](std::int64_t n) { return f(filled({n}, 2)).item(); };
  for (std::int64_t n : {1, 2, 3}) EXPECT_EQ(call(n), 2.0 * static_cast<double>(n));
  EXPECT_EQ(call(1), 2);  // the signature for 2 is now the least recently used
  EXPECT_EQ(call(4), 8);
  EXPECT_EQ(f.signatures(), 3);
  EXPECT_EQ(traces, 4);
  for (std::int64_t n : {1, 3, 4}) EXPECT_EQ(call(n), 2.0 * static_cast<double>(n));
  EXPECT_EQ(traces, 4) << "these signatures must be kept";
  EXPECT_EQ(call(2), 4);
  EXPECT_EQ(traces, 5) << "this signature must be dropped";
  EXPECT_TRUE(wait_for_plans(world.mesh(), 3));
}

TEST(Keep, SixteenSignaturesAreKeptByDefaultAndZeroIsAnError) {
  World world;
  auto f = compile(world.mesh(), [](Tensor x) { return sum(x); });
  for (std::int64_t n = 1; n <= 20; ++n) f(filled({n}, 1)).wait();
  EXPECT_EQ(f.signatures(), 16);
  EXPECT_TRUE(wait_for_plans(world.mesh(), 16));
  try {
    compile(world.mesh(), [](Tensor x) { return x; }, {.keep = 0});
    FAIL();
  } catch (const Error& error) { EXPECT_STREQ(error.what(), "compile: keep is 0; it must be at least 1"); }
}

TEST(Keep, ALaunchInFlightOnADroppedPlanEndsNormally) {
  World world({.devices = 2});
  auto f = compile(world.mesh("data=2"), [](Tensor x) { return sum(x * x); }, {.keep = 1});
  std::vector<Future> futures;
  for (std::int64_t n = 1; n <= 12; ++n) futures.push_back(f(filled({1000 * n}, 1)));  // each drops the previous one
  for (std::size_t i = 0; i < futures.size(); ++i) EXPECT_EQ(futures[i].item(), 1000.0 * static_cast<double>(i + 1));
  EXPECT_TRUE(wait_for_plans(world.mesh(), 1));
}

TEST(Keep, PlansAreFreedWithTheirFunction) {
  World world;
  std::optional<Future> last;
  {
    auto f = compile(world.mesh(), [](Tensor x) { return sum(x); });
    auto other = f;
    f(filled({3}, 1)).wait();
    last = other(filled({4}, 1));
  }
  EXPECT_EQ(last->item(), 4) << "the launch must end normally after its function is destroyed";
  EXPECT_TRUE(wait_for_plans(world.mesh(), 0));
}

TEST(Keep, ThePlanThatWritesFirstValuesIsUnloadedAfterItRan) {
  World world;
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 4, 2};
  } net;
  auto f = compile(world.mesh(), [&](Tensor x) { return net.fc(x); });
  f(filled({3, 4}, 1)).wait();
  EXPECT_TRUE(wait_for_plans(world.mesh(), 1)) << "only the plan of the function must remain loaded";
}

TEST(Keep, FunctionsCanBeCalledAfterAReset) {
  World world;
  auto f = compile(world.mesh(), [](Tensor x) { return sum(x); });
  EXPECT_EQ(f(filled({3}, 1)).item(), 3);
  world.reset();
  EXPECT_EQ(f(filled({3}, 2)).item(), 6);
  EXPECT_TRUE(wait_for_plans(world.mesh(), 1));
}

TEST(Keep, TheReasonForCompilingAgainIsReportedOnce) {
  World world;
  auto f = compile(world.mesh(), [](Tensor x) { return sum(x); }, {.name = "loss"});
  testing::internal::CaptureStderr();
  f(filled({3}, 1)).wait();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  f(filled({5}, 1)).wait();
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("lifetime_test.cc:"));
  EXPECT_THAT(text,
              HasSubstr("function 'loss' is compiled again: it was called with (f32[5]), previously with (f32[3])"));
  testing::internal::CaptureStderr();
  f(filled({6}, 1)).wait();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Calls a small model with many batch sizes. Each signature makes and frees a plan, its kernels and its graph.
TEST(Keep, CallsWithFourHundredBatchSizesIncreaseMemoryByAtMostTenMegabytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr bool is_exact = false;  // the sanitizers keep freed memory in quarantine
#else
  constexpr bool is_exact = true;
#endif
  struct Net : nn::Module {
    nn::Linear fc1{*this, "fc1", 8, 16}, fc2{*this, "fc2", 16, 4};
    Tensor operator()(Tensor x) { return fc2(relu(fc1(x))); }
  } net;
  World world({.devices = 2});
  optim::SGD sgd(net.parameters(), {.lr = 1e-3, .momentum = 0.9});
  auto step = compile(world.mesh("data=2"), [&](Tensor x) {
    Tensor loss = mean(net(x));
    sgd.step(grad(loss, net.parameters()));
    return loss;
  });
  // These sizes are not smaller than the measured ones, because 16 signatures are kept with their tensors.
  for (std::int64_t n = 408; n < 448; ++n) step(filled({n, 8}, 1)).wait();
  const std::int64_t initial_bytes = resident_bytes();
  for (std::int64_t n = 8; n < 408; ++n) step(filled({n, 8}, 1)).wait();
  const std::int64_t growth = resident_bytes() - initial_bytes;
  std::printf("400 signatures: %.1f MB more resident, of %.1f MB\n", static_cast<double>(growth) / 1e6,
              static_cast<double>(initial_bytes) / 1e6);
  EXPECT_TRUE(!is_exact || growth <= 10'000'000) << growth;
  EXPECT_EQ(step.signatures(), 16);
}

// The array is overwritten as soon as the call has returned, but the launch must read the previous contents.
TEST(Arguments, ArgumentsMayBeWrittenAsSoonAsTheCallReturns) {
  World world({.devices = 2});
  auto f = compile(world.mesh("data=2"), [](Tensor x) { return sum(x); });
  const Shape shape{64, 4096};
  HostArray x = filled(shape, 1);
  f(x).wait();
  for (int i = 0; i < 40; ++i) {
    std::fill(x.data<float>().begin(), x.data<float>().end(), 1.0f);
    Future first = f(x);
    std::fill(x.data<float>().begin(), x.data<float>().end(), 2.0f);
    Future second = f(x);
    std::fill(x.data<float>().begin(), x.data<float>().end(), 3.0f);
    ASSERT_EQ(first.item(), 64 * 4096) << "try " << i;
    ASSERT_EQ(second.item(), 2 * 64 * 4096) << "try " << i;
  }
}

TEST(Arguments, ArgumentsMovedByOneOfTwoOwnersAreNotDonated) {
  World world;
  auto f = compile(world.mesh(), [](Tensor x) { return sum(x); });
  const Shape shape{64, 4096};
  f(filled(shape, 0)).wait();
  for (int i = 0; i < 20; ++i) {
    HostArray x = filled(shape, 1), other_owner = x;
    Future sum = f(std::move(x));
    std::fill(other_owner.data<float>().begin(), other_owner.data<float>().end(), 2.0f);
    ASSERT_EQ(sum.item(), 64 * 4096) << "try " << i;
  }
  EXPECT_GE(world.mesh().world->copies.allocated(), 1);
}

TEST(Arguments, ArgumentsMovedByTheirOnlyOwnerAreNotCopied) {
  World world;
  auto f = compile(world.mesh(), [](Tensor x) { return sum(x); });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(f(filled({1000}, 1)).item(), 1000);
  EXPECT_EQ(f(2.5f).item(), 2.5);
  EXPECT_EQ(world.mesh().world->copies.allocated(), 0);
}

TEST(Arguments, CopiesReuseMemoryInEachStep) {
  World world;
  auto f = compile(world.mesh(), [](Tensor x, Tensor y) { return sum(x) + sum(y); });
  HostArray x = filled({1000}, 1), y = filled({10}, 1);
  std::vector<Future> pending;  // a future holds its results, not its arguments
  for (int i = 0; i < 100; ++i) {
    pending.push_back(f(x, y));
    EXPECT_EQ(pending.back().item(), 1010);
  }
  EXPECT_LE(world.mesh().world->copies.allocated(), 4) << "expected copies of two arrays for at most two launches";
}

}  // namespace
}  // namespace karez
