// Tests a training step in the steady state. In launches 10 to 30, worker threads allocate nothing outside of oneDNN.
// Allocations while oneDNN executes a primitive are counted separately, and their number is the same in each launch.
// The threads that monitor CPU contention are not counted, because they do not belong to a launch.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <random>
#include <string_view>

#include "karez/karez.h"
#include "karez/runtime/test_malloc.h"
#include "karez/runtime/worker/contention_monitor.h"
#include "tests/allocations.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<long> own_allocations{0}, library_allocations{0};
thread_local bool is_client = false;
thread_local int inside_library = 0;
std::atomic<int> executing{0};

bool is_contention_monitor() {
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  return std::string_view(name) == karez::runtime::ContentionMonitor::thread_name;
}
}  // namespace

extern "C" int omp_get_thread_num();  // a function of the OpenMP runtime that runs kernel teams

void count_allocation(std::size_t bytes, std::size_t alignment) {
  karez::tests::block_sizes.note(bytes, alignment);
  if (!counting.load(std::memory_order_relaxed) || is_client || is_contention_monitor()) return;
  // The other threads of a team work for the thread that called execute.
  bool for_library = inside_library > 0 || (executing.load() > 0 && omp_get_thread_num() > 0);
  (for_library ? library_allocations : own_allocations).fetch_add(1, std::memory_order_relaxed);
}

extern "C" {
// Overrides oneDNN's function, which executes every primitive.
int dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* args) {
  using Execute = int (*)(const void*, void*, int, const void*);
  static const auto library_execute = reinterpret_cast<Execute>(dlsym(RTLD_NEXT, "dnnl_primitive_execute"));
  ++inside_library;
  ++executing;
  int status = library_execute(primitive, stream, count, args);
  --executing;
  --inside_library;
  return status;
}
}

namespace karez::tests {
namespace {

struct Cnn : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, 16, 3}, conv2{*this, "conv2", 16, 32, 3};
  nn::Linear fc1{*this, "fc1", 32 * 5 * 5, 128}, fc2{*this, "fc2", 128, 10};
  nn::Dropout drop{*this, "drop", 0.25};
  Tensor operator()(Tensor x) {
    x = max_pool(relu(conv1(x)), 2);
    x = max_pool(relu(conv2(x)), 2);
    return fc2(drop(relu(fc1(flatten(x)))));
  }
};

class SteadyState : public ::testing::TestWithParam<const char*> {};

TEST_P(SteadyState, WorkersAllocateNothing) {
  is_client = true;
  Mesh shape = Mesh::parse(GetParam());
  World world({.devices = shape.size()});
  Cnn net;
  optim::Adam adam(net.parameters(), {.lr = 1e-3});
  auto step = compile(world.mesh(shape.axes), [&](Tensor x, Tensor y) {
    Tensor loss = cross_entropy(net(x), y);
    adam.step(grad(loss, net.parameters()));
    return loss;
  });
  std::mt19937 random(3);
  HostArray x(TensorType{DType::f32, {16, 1, 28, 28}}), y(TensorType{DType::i32, {16}});
  for (float& value : x.data<float>()) value = static_cast<float>(random() % 1000) / 500 - 1;
  for (std::int32_t& label : y.data<std::int32_t>()) label = static_cast<std::int32_t>(random() % 10);
  std::vector<long> by_library;
  for (int launch = 1; launch <= 30; ++launch) {
    own_allocations = library_allocations = 0;
    counting = launch >= 10;
    step(x, y).wait();
    counting = false;
    if (launch < 10) continue;
    EXPECT_EQ(own_allocations.load(), 0) << "launch " << launch;
    by_library.push_back(library_allocations.load());
  }
  std::printf("allocations inside oneDNN: %ld a launch\n", by_library[0]);
  for (long count : by_library) EXPECT_EQ(count, by_library[0]);
}

INSTANTIATE_TEST_SUITE_P(Meshes, SteadyState, ::testing::Values("", "data=4", "data=2,model=2"));

TEST(SteadyStateHook, AllocationsOfAThreadAreCounted) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  is_client = false;
  own_allocations = 0;
  counting = true;
  allocate_once();
  counting = false;
  is_client = true;
  EXPECT_GE(own_allocations.load(), 1);
#endif
}

}  // namespace
}  // namespace karez::tests
