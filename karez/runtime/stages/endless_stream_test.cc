// Tests that streams without end need a constant amount of memory, whatever their stages hold.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>

#include "karez/data/stages/test_random_datasets.h"
#include "karez/runtime/stages/dataset_reader.h"

namespace karez::runtime {
namespace {

std::int64_t allocated_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#else
  return static_cast<std::int64_t>(mallinfo2().uordblks);
#endif
}

// Reads many elements, and compares the largest amount of memory in the first part with that in the last one.
void expect_constant_memory(const Dataset& dataset, int threads) {
  const int elements = threads == 0 ? 20'000 : 6'000;
  SCOPED_TRACE(dataset.text());
  DataThreads pool(threads);
  DatasetReader reader(dataset, pool);
  reader.start();
  std::int64_t first = 0, last = 0;
  for (int i = 0; i < elements; ++i) {
    ASSERT_TRUE(reader.next());
    if (i % 50 == 0) (i < elements / 3 ? first : last) = std::max(i < elements / 3 ? first : last, allocated_bytes());
  }
  EXPECT_LE(last - first, elements) << "bytes";
}

Element same(const Element& e) { return e; }

TEST(EndlessStream, MemoryIsConstant) {
  const Dataset numbers = range(10).repeat(), stream = numbers.filter([](const Element&) { return true; });
  const auto inner = [](const Element& e) { return range(number_of(e)); };
  for (int threads : {0, 2}) {
    expect_constant_memory(numbers, threads);
    expect_constant_memory(stream.shuffle({.buffer = 100}), threads);
    expect_constant_memory(range(10).shuffle().repeat().map(same, {3}), threads);
    expect_constant_memory(range(10).filter([](const Element&) { return true; }).repeat(), threads);
    expect_constant_memory(stream.window(5, 2), threads);
    expect_constant_memory(stream.window(2, 5), threads);
    expect_constant_memory(stream.map(same, {3}).prefetch(4).batch(3).unbatch().skip(2).shard(2, 1), threads);
    expect_constant_memory(stream.interleave(inner, {.cycle = 3}), threads);
    expect_constant_memory(stream.interleave(inner, {.cycle = 3, .parallel = true}), threads);
    expect_constant_memory(stream.flat_map(inner), threads);
    expect_constant_memory(zip({stream, numbers}).bucket_by_length(number_of, {3, 7}, {2, 5, 1}), threads);
    expect_constant_memory(stream.batch(4).with_options({.deterministic = false, .bytes = 100, .cpu = 1}), threads);
  }
}

// Stages that hold one element forever.
TEST(EndlessStream, MemoryIsConstantIfOneElementIsHeldForever) {
  const Dataset stream = range(10).repeat().filter([](const Element&) { return true; });
  for (int threads : {0, 2}) {
    expect_constant_memory(stream.interleave(
                               [first = true](const Element& e) mutable {
                                 return std::exchange(first, false) ? range(10).repeat() : range(number_of(e));
                               },
                               {.cycle = 2}),
                           threads);
    std::int64_t count = 0;
    expect_constant_memory(stream.bucket_by_length([count](const Element&) mutable { return count++; }, {1}, {9, 2}),
                           threads);
  }
}

}  // namespace
}  // namespace karez::runtime
