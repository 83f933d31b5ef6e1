// Tests that a prepared kernel allocates no memory when it runs; allocations inside oneDNN are counted separately and
// must be constant.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "karez/base/text.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/kernel_bench.h"
#include "karez/kernels/cpu/test_allocations.h"

namespace {

// Allocations of this thread while `counting` is true, by the caller of operator new: this program, or a shared
// library.
thread_local bool counting = false;
thread_local int program_allocations = 0, library_allocations = 0;

void* program_base() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&program_base), &info);
  return info.dli_fbase;
}

void* counted_malloc(std::size_t bytes, void* caller) {
  if (counting) {
    counting = false;  // dladdr may allocate
    static void* const base = program_base();
    Dl_info info{};
    ++(dladdr(caller, &info) != 0 && info.dli_fbase != base ? library_allocations : program_allocations);
    counting = true;
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted_malloc(bytes, __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return counted_malloc(bytes, __builtin_return_address(0)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted_malloc(bytes, __builtin_return_address(0));
}  // used by std::stable_sort
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace karez::kernels {

int allocations_of(const std::function<void()>& body) {
  program_allocations = library_allocations = 0;
  counting = true;
  body();
  counting = false;
  return program_allocations;
}

namespace {

// Returns a call for each fast row, with the name of the row. Products occur a second time with bf16 operands, on the
// row that widens them.
std::vector<std::pair<std::string, CallSpec>> calls_for_all_rows(const KernelTable& table) {
  std::vector<std::pair<std::string, CallSpec>> out;
  for (const CallSpec& call : calls_for_fast_rows()) {
    const std::string row = table.find(call).value().kernel;
    out.emplace_back(row, call);
    const auto widened = [&](const KernelRow& other) { return other.name == row + "_widened"; };
    if (std::any_of(table.rows().begin(), table.rows().end(), widened))
      out.emplace_back(row + "_widened", as_bf16(call));
  }
  return out;
}

TEST(FastAllocation, NoPreparedKernelAllocatesMemory) {
  const KernelTable table(cpu_kernels());
  std::vector<std::string> tested_rows;
  for (const int team : {1, 2})
    for (auto [row, call] : calls_for_all_rows(table)) {
      call.team = team;
      tested_rows.push_back(row);
      KernelBench bench(table.row(row), call);
      fill_random(bench, 1);
      for (int i = 0; i < 3; ++i) bench.run();  // OpenMP creates threads, and oneDNN creates pools
      int expected_library_allocations = 0;
      for (int i = 0; i < 4; ++i) {
        program_allocations = library_allocations = 0;
        counting = true;
        bench.run();
        counting = false;
        EXPECT_EQ(program_allocations, 0) << print(call) << " on " << row;
        if (i == 0) expected_library_allocations = library_allocations;
        EXPECT_EQ(library_allocations, expected_library_allocations) << print(call) << " on " << row;
      }
      if (!starts_with(row, "onednn.")) {
        EXPECT_EQ(expected_library_allocations, 0) << print(call) << " on " << row;
      } else {
        std::cout << row << ", team " << team << ": oneDNN allocates " << expected_library_allocations
                  << " times per run\n";
      }
    }
  for (const KernelRow& row : cpu_kernels()) {
    if (row.rank == 0) continue;
    EXPECT_NE(std::find(tested_rows.begin(), tested_rows.end(), row.name), tested_rows.end())
        << row.name << " is not covered by this test";
  }
}

TEST(FastAllocation, TheCounterCountsAllocations) {
  program_allocations = library_allocations = 0;
  counting = true;
  delete new int(3);
  std::vector<double> numbers(10);
  counting = false;
  EXPECT_GE(program_allocations, 1);
  EXPECT_EQ(library_allocations, 0);
  EXPECT_EQ(numbers.size(), 10u);
}

}  // namespace
}  // namespace karez::kernels
