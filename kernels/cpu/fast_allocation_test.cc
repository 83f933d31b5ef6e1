// Test that a prepared kernel allocates nothing when it runs; what oneDNN allocates inside its own executes is told apart and must be constant.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "kernels/cpu/fast.h"
#include "kernels/cpu/fast_run.h"

namespace {

// Allocations of this thread while `counting`, by who called operator new: this program, or a shared library.
thread_local bool counting = false;
thread_local int by_us = 0, by_libraries = 0;

void* our_base() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&our_base), &info);
  return info.dli_fbase;
}

void* counted(std::size_t bytes, void* caller) {
  if (counting) {
    counting = false;  // dladdr may allocate
    static void* const base = our_base();
    Dl_info info{};
    ++(dladdr(caller, &info) != 0 && info.dli_fbase != base ? by_libraries : by_us);
    counting = true;
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return counted(bytes, __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace karez {
namespace {

View f32(Shape shape) { return View(DType::f32, std::move(shape)); }
View image(Shape shape, DType dtype = DType::f32) { return View(dtype, shape, channels_last(shape)); }

// One call for every fast row, large enough that a team of two shares it.
std::vector<CallSpec> calls() {
  const View x = image({8, 1, 28, 28}), x3 = image({8, 3, 28, 28}), y = image({8, 16, 26, 26}), z = image({8, 16, 13, 13}),
             mask = image(z.shape, DType::i32);
  const View w = image({16, 1, 3, 3}), w3 = image({16, 3, 3, 3}), all = f32({300, 400}), scalar = f32({}), step(DType::i64, {});
  const Attrs pool{{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}};
  Attrs back = pool;
  back.set("shape", y.shape);
  const auto make = [](const char* op, std::vector<View> in, std::vector<View> out, Attrs attrs) {
    CallSpec call;
    call.op = op, call.in = std::move(in), call.out = std::move(out), call.attrs = std::move(attrs);
    return call;
  };
  return {make("matmul", {f32({64, 100}), f32({100, 50}), f32({50})}, {f32({64, 50})}, {{"bias", true}, {"relu", true}}),
          make("conv2d", {x, w}, {y}, {}),
          make("conv2d", {x3, w3}, {y}, {}),
          make("conv2d_grad_input", {y, w3}, {x3}, {{"shape", x3.shape}}),
          make("conv2d_grad_weight", {x3, y}, {w3}, {{"kernel", Ints{3, 3}}}),
          make("max_pool", {y}, {z, mask}, pool),
          make("max_pool_grad", {z, mask}, {y}, back),
          make("avg_pool", {y}, {z}, pool),
          make("avg_pool_grad", {z}, {y}, back),
          make("pointwise", {all}, {all}, {{"expr", "max(x0, 0)"}}),
          make("pointwise", {all, View(DType::f32, all.shape, {1, 0})}, {all}, {{"expr", "exp(x0 - x1) * x0"}}),
          make("reduce_sum", {all}, {f32({400})}, {{"axes", Ints{0}}}),
          make("reduce_max", {all}, {f32({300})}, {{"axes", Ints{1}}}),
          make("reduce_min", {all}, {scalar}, {{"axes", Ints{0, 1}}}),
          make("sgd", {all, all, all, scalar}, {all, all}, {{"momentum", 0.9}}),
          make("adam", {all, all, all, all, scalar, step}, {all, all, all}, {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}}),
          make("random_uniform", {View(DType::i64, {2})}, {all}, {{"site", Attr(std::int64_t{3})}})};
}

TEST(FastAllocation, NoPreparedKernelAllocates) {
  const KernelTable table(cpu_kernels());
  std::vector<std::string> seen;
  for (const int team : {1, 2})
    for (CallSpec call : calls()) {
      call.team = team;
      const auto choice = table.find(call);
      ASSERT_TRUE(choice.has_value());
      seen.push_back(choice->kernel);
      Bench bench(table.row(choice->kernel), call);
      fill_random(bench, 1);
      for (int i = 0; i < 3; ++i) bench.run();  // OpenMP makes its threads, oneDNN its pools
      int libraries = 0;
      for (int i = 0; i < 4; ++i) {
        by_us = by_libraries = 0;
        counting = true;
        bench.run();
        counting = false;
        EXPECT_EQ(by_us, 0) << print(call) << " on " << choice->kernel;
        if (i == 0) libraries = by_libraries;
        EXPECT_EQ(by_libraries, libraries) << print(call) << " on " << choice->kernel;
      }
      if (!starts_with(choice->kernel, "onednn.")) EXPECT_EQ(libraries, 0) << print(call) << " on " << choice->kernel;
      else std::cout << choice->kernel << ", team " << team << ": oneDNN allocates " << libraries << " times a run\n";
    }
  for (const KernelRow& row : cpu_kernels())
    if (row.rank > 0) EXPECT_NE(std::find(seen.begin(), seen.end(), row.name), seen.end()) << row.name << " is not covered here";
}

TEST(FastAllocation, TheCounterCounts) {
  by_us = by_libraries = 0;
  counting = true;
  delete new int(3);
  std::vector<double> numbers(10);
  counting = false;
  EXPECT_GE(by_us, 1);
  EXPECT_EQ(by_libraries, 0);
  EXPECT_EQ(numbers.size(), 10u);
}

}  // namespace
}  // namespace karez
