// Tests of subsets.
#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/data/dataset.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

TEST(Subset, ItsElementsAreThoseOfItsIndicesInTheirOrder) {
  const Dataset numbers = range(10, 20);
  const Dataset subset = numbers.subset({3, 0, 3, 9});
  EXPECT_EQ(subset.size(), 4);
  EXPECT_EQ(read_all(subset), (Numbers{13, 10, 13, 19}));
  EXPECT_EQ(number_of(subset.at(3)), 19);
  EXPECT_EQ(subset.at(3).index, 9) << "the record of the source";
  EXPECT_EQ(read_all(numbers.subset({})), Numbers{});
  EXPECT_EQ(read_all(subset.subset({2, 1})), (Numbers{13, 10}));
  EXPECT_EQ(read_all(subset.repeat(2).skip(3)), (Numbers{19, 13, 10, 13, 19}));
}

TEST(Subset, ItFollowsTheOrderOfTheEpoch) {
  const Dataset shuffled = range(50).shuffle({.seed = 3});
  for (std::int64_t epoch : {0, 1}) {
    const Numbers all = read_all(shuffled, epoch);
    EXPECT_EQ(read_all(shuffled.subset({7, 49}), epoch), (Numbers{all[7], all[49]}));
  }
}

TEST(Subset, ItsTextDependsOnTheIndices) {
  const auto text = [](std::vector<std::int64_t> indices) { return range(5).subset(std::move(indices)).text(); };
  EXPECT_TRUE(text({1, 2}).starts_with("subset(2 elements with hash ")) << text({1, 2});
  EXPECT_EQ(text({1, 2}), text({1, 2}));
  EXPECT_NE(text({1, 2}), text({2, 1}));
}

TEST(Subset, InvalidIndicesAreErrors) {
  for (std::int64_t index : {-1, 5})
    EXPECT_EQ(base::error_of([&] {
                range(5).subset({0, index});
              }),
              cat("subset: index ", index, " does not exist: the data set has 5 elements"));
  EXPECT_EQ(base::error_of([] { range(5).filter([](const Element&) { return true; }).subset({0}); }),
            "subset: the elements of the data set cannot be read by index, or their number is not known");
}

}  // namespace
}  // namespace karez::data
