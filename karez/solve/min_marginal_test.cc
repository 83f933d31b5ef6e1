// Tests of min-marginals: compares them with loops that visit every cell.
#include "karez/solve/min_marginal.h"

#include <gtest/gtest.h>

#include <random>

#include "karez/base/cat.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();

struct MarginalCase {
  std::vector<int> sizes;
  std::vector<std::vector<double>> add;
  std::vector<int> fixed;

  Axes axes() const {
    Axes out;
    for (std::size_t a = 0; a < sizes.size(); ++a) out.push_back({sizes[a], add[a].data(), fixed[a]});
    return out;
  }
  // The minimum cost by state on the axis; cells are row-major.
  std::vector<double> expected_minima(const std::vector<double>& cells, std::size_t axis) const {
    std::vector<double> out(static_cast<std::size_t>(sizes[axis]), inf);
    for (std::size_t at = 0; at < cells.size(); ++at) {
      std::size_t rest = at;
      double sum = cells[at];
      int state = 0;
      bool visited = true;
      for (std::size_t a = sizes.size(); a-- > 0; rest /= static_cast<std::size_t>(sizes[a])) {
        const int index = static_cast<int>(rest % static_cast<std::size_t>(sizes[a]));
        visited = visited && (fixed[a] < 0 || fixed[a] == index);
        sum += add[a][static_cast<std::size_t>(index)];
        if (a == axis) state = index;
      }
      if (visited) out[static_cast<std::size_t>(state)] = std::min(out[static_cast<std::size_t>(state)], sum);
    }
    return out;
  }
};

MarginalCase random_case(std::mt19937& random, std::size_t axes) {
  MarginalCase sample_case;
  for (std::size_t a = 0; a < axes; ++a) {
    const int size = 1 + static_cast<int>(random() % 7);
    sample_case.sizes.push_back(size);
    auto& add = sample_case.add.emplace_back();
    for (int s = 0; s < size; ++s) add.push_back(static_cast<double>(random() % 100));
    sample_case.fixed.push_back(random() % 3 == 0 ? static_cast<int>(random() % static_cast<unsigned>(size)) : -1);
  }
  return sample_case;
}

TEST(MinMarginal, TheMinimumOfEachStateIsTheMinimumOfItsCells) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const MarginalCase all = random_case(random, 1 + seed % 4);
    std::size_t count = 1;
    for (int size : all.sizes) count *= static_cast<std::size_t>(size);
    std::vector<double> cells;
    for (; cells.size() < count;) cells.push_back(random() % 5 == 0 ? inf : static_cast<double>(random() % 100));
    for (std::size_t axis = 0; axis < all.sizes.size(); ++axis) {
      MarginalCase sample = all;
      sample.fixed[axis] = -1;  // the axis of the result is not fixed
      std::vector<double> minima(static_cast<std::size_t>(sample.sizes[axis]));
      min_marginal(std::span<const double>(cells), sample.axes(), axis, minima);
      ASSERT_EQ(minima, sample.expected_minima(cells, axis));
    }
  }
}

TEST(MinMarginal, ImpliedClassesGiveTheMinimaOfTheirExpandedCells) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const MarginalCase all = random_case(random, 2 + seed % 3);
    const auto last = static_cast<std::size_t>(all.sizes.back());
    std::size_t classes = 1;
    for (std::size_t a = 0; a + 1 < all.sizes.size(); ++a) classes *= static_cast<std::size_t>(all.sizes[a]);
    std::vector<int> implied;
    std::vector<double> cells(classes * last, inf);
    for (std::size_t c = 0; c < classes; ++c) {
      implied.push_back(static_cast<int>(random() % (last + 1)) - 1);
      if (implied[c] >= 0) cells[c * last + static_cast<std::size_t>(implied[c])] = 0;
    }
    for (std::size_t axis = 0; axis < all.sizes.size(); ++axis) {
      MarginalCase sample = all;
      sample.fixed[axis] = -1;  // the axis of the result is not fixed
      std::vector<double> minima(static_cast<std::size_t>(sample.sizes[axis]));
      min_marginal(std::span<const int>(implied), sample.axes(), axis, minima);
      ASSERT_EQ(minima, sample.expected_minima(cells, axis));
    }
  }
}

}  // namespace
}  // namespace karez::solve
