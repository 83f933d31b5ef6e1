// Tests of data sets whose elements coroutines generate.
#include "karez/data/coroutine.h"

#include <gtest/gtest.h>

#include <memory>

#include "karez/base/test_error.h"
#include "karez/base/text.h"
#include "karez/data/stages/sequential_reader.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

Element scalar(std::int64_t number) { return element(HostArray::of<std::int64_t>({}, {number})); }

Coroutine numbers(std::int64_t epoch) {
  for (std::int64_t i = 0; i < 4; ++i) co_yield scalar(10 * epoch + i);
}

TEST(Coroutine, TheElementsAreThoseThatItYields) {
  const Dataset dataset = from_coroutine(numbers);
  EXPECT_EQ(read_all(dataset), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(read_all(dataset, 2), (Numbers{20, 21, 22, 23}));
  EXPECT_EQ(read_all(dataset.filter([](const Element& e) { return number_of(e) != 1; }).skip(1)), (Numbers{2, 3}));
  EXPECT_EQ(dataset.text(), "from_generator(coroutine)\n");
  EXPECT_FALSE(dataset.size());
}

TEST(Coroutine, AnEmptyCoroutineHasNoElements) {
  const Dataset dataset = from_coroutine([](std::int64_t) -> Coroutine { co_return; }, "nothing");
  EXPECT_EQ(read_all(dataset), Numbers());
}

TEST(Coroutine, ALambdaKeepsItsCaptures) {
  auto limit = std::make_shared<std::int64_t>(3);
  std::weak_ptr<std::int64_t> alive = limit;
  {
    const Dataset dataset = from_coroutine([limit](std::int64_t) -> Coroutine {
      for (std::int64_t i = 0; i < *limit; ++i) co_yield scalar(i);
    });
    limit.reset();
    SequentialReader reader(dataset);
    reader.start({});
    EXPECT_EQ(number_of(*reader.next()), 0);
    EXPECT_EQ(number_of(*reader.next()), 1);
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired()) << "a coroutine that has not ended is destroyed with its reader";
}

TEST(Coroutine, AnExceptionEndsTheEpoch) {
  const Dataset dataset = from_coroutine([](std::int64_t) -> Coroutine {
    co_yield scalar(1);
    base::fail("the file is damaged");
  });
  SequentialReader reader(dataset);
  reader.start({});
  EXPECT_EQ(number_of(*reader.next()), 1);
  EXPECT_EQ(base::error_of([&] { reader.next(); }), "the file is damaged");
  Coroutine coroutine = [](std::int64_t) -> Coroutine {
    base::fail("at once");
    co_return;
  }(0);
  EXPECT_EQ(base::error_of([&] { coroutine.next(); }), "at once");
  EXPECT_FALSE(coroutine.next()) << "it has ended";
}

TEST(Coroutine, AReaderResumes) {
  SequentialReader reader(from_coroutine(numbers)), resumed(from_coroutine(numbers));
  reader.start({1});
  reader.next();
  const StreamStateRef state = reader.next()->state;
  resumed.start({1, state});
  std::optional<Element> element;
  while (!element) element = resumed.next();
  EXPECT_EQ(number_of(*element), 12);
}

TEST(Coroutine, TheFunctionMustExist) {
  EXPECT_EQ(base::error_of([] { from_coroutine(nullptr); }), "from_coroutine: the function must not be null");
}

}  // namespace
}  // namespace karez::data
