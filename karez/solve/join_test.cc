// Tests of joins: compares them with sums over cells, and checks visits that stop early.
#include "karez/solve/join.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "karez/base/cat.h"

namespace karez::solve {
namespace {

struct Part {
  std::vector<double> cells;
  AxisOffsets step;
  std::vector<std::size_t> of_x;
};

// A table over some of the scope's axes and x, with x at any position. Axes have classes of states, so that offsets
// repeat.
Part random_part(std::mt19937& random, const std::vector<int>& sizes, int states) {
  Part part{{}, AxisOffsets(sizes.size()), {}};
  std::size_t count = 1;
  auto steps = [&](int size) {
    std::vector<std::size_t> out;
    const std::size_t classes = 1 + random() % static_cast<unsigned>(size);
    for (int i = 0; i < size; ++i) out.push_back(count * (random() % classes));
    count *= classes;
    return out;
  };
  const std::size_t x_at = random() % (sizes.size() + 1);
  for (std::size_t a = 0; a <= sizes.size(); ++a) {
    if (a == x_at) {
      const std::size_t before = count;
      part.of_x = steps(states);
      if (random() % 2 == 0 && before == 1 && count == static_cast<std::size_t>(states))
        for (int x = 0; x < states; ++x) part.of_x[static_cast<std::size_t>(x)] = static_cast<std::size_t>(x);
    }
    if (a < sizes.size() && random() % 2 == 0) part.step[a] = steps(sizes[a]);
  }
  for (; count > 0; --count) part.cells.push_back(static_cast<double>(random() % 1000));
  return part;
}

TEST(Join, MinimaAndVisitedSumsEqualTheSumsOfTheCells) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    std::vector<int> sizes(random() % 4);
    for (int& size : sizes) size = 1 + static_cast<int>(random() % 4);
    const int states = 1 + static_cast<int>(random() % 6);
    std::vector<Part> parts;
    for (std::size_t i = 1 + random() % 4; i > 0; --i) parts.push_back(random_part(random, sizes, states));
    std::vector<std::vector<double>> sums;
    std::vector<int> index(sizes.size(), 0);
    for (bool more = true; more;) {
      auto& row = sums.emplace_back(static_cast<std::size_t>(states), 0.0);
      for (const Part& part : parts)
        for (std::size_t x = 0; x < row.size(); ++x) {
          std::size_t cell = part.of_x[x];
          for (std::size_t a = 0; a < sizes.size(); ++a)
            cell += part.step[a].empty() ? 0 : part.step[a][static_cast<std::size_t>(index[a])];
          row[x] += part.cells[cell];
        }
      std::size_t a = sizes.size();
      while (a > 0 && ++index[a - 1] == sizes[a - 1]) index[--a] = 0;
      more = a > 0;
    }
    auto join = [&] {
      Join built(sizes, states);
      for (const Part& part : parts) built.add(part.cells, part.step, part.of_x);
      return built;
    };
    std::vector<double> minima;
    for (const auto& row : sums) minima.push_back(*std::min_element(row.begin(), row.end()));
    ASSERT_EQ(join().minimise(), minima);
    std::size_t visited = 0, end = random() % (sums.size() + 1);
    Join visited_join = join();
    visited_join.for_each([&](std::span<const double> row) {
      EXPECT_TRUE(std::equal(row.begin(), row.end(), sums[visited].begin(), sums[visited].end()));
      return ++visited != end;
    });
    ASSERT_EQ(visited, end == 0 ? sums.size() : end);
  }
}

}  // namespace
}  // namespace karez::solve
