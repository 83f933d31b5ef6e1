// Tests of threads that share a world: a thread that waits for a launch does not block the others.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "karez/api/compile.h"
#include "karez/api/testing/test_inputs.h"

namespace karez {
namespace {

TEST(Waiting, AReadOfAVariableDuringALaunchDoesNotBlockOtherThreads) {
  World world;
  Parameter total("total", {DType::f32, {}}, constant_init(1));
  auto add = compile(world.mesh(), [&](Tensor x) { return total + x; });
  add(1.0f).wait();
  std::promise<void> open;
  Future pending = add(Feed{std::make_shared<LateSource>(open.get_future().share()), 0});
  auto reading = std::async(std::launch::async, [&] { return world.read(total).data<float>()[0]; });
  auto writing = std::async(std::launch::async, [&] { world.write("total", HostArray::of<float>({}, {7})); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // usually long enough for both threads to be waiting
  auto query = std::async(std::launch::async, [&] { return world.variables().size(); });
  auto second_call = std::async(std::launch::async, [&] { return add(2.0f); });
  EXPECT_EQ(query.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(second_call.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_NE(writing.wait_for(std::chrono::seconds(0)), std::future_status::ready)
      << "the write must wait while the launch reads the variable";
  open.set_value();
  EXPECT_EQ(pending.item(), 6) << "the launch must use the value that preceded the write";
  writing.get();
  const double second_result = second_call.get().item();
  EXPECT_TRUE(second_result == 9 || second_result == 3)
      << "got " << second_result << "; expected 9 if the call came after the write, or 3 if it came before";
  const float read = reading.get();
  EXPECT_TRUE(read == 1 || read == 7) << "got " << read << "; expected 1 (before the write) or 7 (after it)";
  EXPECT_EQ(add(1.0f).item(), 8);
}

}  // namespace
}  // namespace karez
