// Tests of several threads that read a data set with a cache at the same time.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "karez/data/stages/test_random_datasets.h"
#include "karez/data/test_folder.h"
#include "karez/runtime/stages/dataset_reader.h"

namespace karez::runtime {
namespace {

Numbers rest(DatasetReader& reader) {
  Numbers out;
  while (std::optional<Element> element = reader.next()) out.push_back(number_of(*element));
  return out;
}

TEST(CachedStreams, StreamsOfOneDataSetStoreTheElementsOfOneRun) {
  const data::TestFolder folder;
  for (int kind = 0; kind < 3; ++kind) {
    std::atomic<std::int64_t> runs{0};
    const Dataset numbers = data::from_generator([&runs](std::int64_t) {
      return data::Generator{[next = 1000 * runs++, left = 50]() mutable -> std::optional<Element> {
        if (left-- == 0) return std::nullopt;
        return data::element(HostArray::of<std::int64_t>({}, {next++}));
      }};
    });
    const Dataset stored = kind == 0   ? numbers.cache()
                           : kind == 1 ? numbers.cache(folder.path(""))
                                       : numbers.snapshot(folder.path("s"));
    DataThreads pool(3);
    std::vector<Numbers> last(4);
    std::vector<std::thread> threads;
    for (Numbers& read : last)
      threads.emplace_back([&] {
        DatasetReader reader(stored, pool);
        for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
          reader.start({epoch});
          read = rest(reader);
          ASSERT_EQ(read.size(), 50u);
          for (std::size_t i = 0; i < 50; ++i) ASSERT_EQ(read[i], read[0] + static_cast<std::int64_t>(i));
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const Numbers& read : last) EXPECT_EQ(read, last[0]);
    EXPECT_LE(runs, 4);
  }
}

}  // namespace
}  // namespace karez::runtime
