// The dual simplex method for covering programs.
#include "karez/solve/cover.h"

#include <cmath>
#include <limits>

namespace karez::solve {
namespace {
constexpr double tight = 1e-7;  // tolerance within which a row counts as satisfied
}  // namespace

CoverProgram::CoverProgram(std::vector<double> prices, std::span<const int> low)
    : count_(prices.size()),
      prices_(std::move(prices)),
      values_(low.begin(), low.end()),
      factors_(count_),
      costs_(prices_),
      slack_of_(count_, -1),
      gain_(count_) {}

CoverProgram::Outcome CoverProgram::solve(std::span<const CoverRow> rows, std::span<const int> low,
                                          std::span<const int> high, int max_pivots) {
  for (int pivots = 0;; ++pivots) {
    // Find the row or bound with the largest violation.
    double lacks = tight;
    int row = -1, variable = -1;
    double sign = 1;
    for (std::size_t i = 0; i < count_; ++i) {
      if (low[i] - values_[i] > lacks) lacks = low[i] - values_[i], variable = static_cast<int>(i), sign = 1;
      if (values_[i] - high[i] > lacks) lacks = values_[i] - high[i], variable = static_cast<int>(i), sign = -1;
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      auto sum = static_cast<double>(rows[r].least);
      for (auto [i, factor] : rows[r].terms) sum -= static_cast<double>(factor) * values_[i];
      if (sum > lacks) lacks = sum, row = static_cast<int>(r);
    }
    if (row < 0 && variable < 0) return Outcome::solved;
    if (pivots == max_pivots) return Outcome::stopped;

    std::fill(gain_.begin(), gain_.end(), 0);
    auto gather = [&](int i, double factor) {
      const std::vector<double>& mine = factors_[i];
      if (mine.empty()) gain_[i] += factor;
      for (std::size_t k = 0; k < mine.size(); ++k) gain_[k] += factor * mine[k];
    };
    if (row >= 0) {
      for (auto [i, factor] : rows[row].terms) gather(i, static_cast<double>(factor));
    } else {
      gather(variable, sign);
    }

    std::size_t enters = count_;
    for (std::size_t k = 0; k < count_; ++k) {
      if (gain_[k] < 1e-9) continue;
      double here = enters < count_ ? costs_[k] * gain_[enters] - costs_[enters] * gain_[k] : -1;
      if (here < 0 || (here == 0 && gain_[k] > gain_[enters])) enters = k;
    }
    if (enters == count_) {
      if (row >= 0) ray_.emplace_back(row, 1);
      for (std::size_t k = 0; k < count_; ++k)
        if (slack_of_[k] >= 0 && gain_[k] < 0) ray_.emplace_back(slack_of_[k], -gain_[k]);
      return Outcome::infeasible;
    }

    double by = 1 / gain_[enters];
    for (std::size_t k = 0; k < count_; ++k) gain_[k] = k == enters ? 1 : gain_[k] * by;
    for (std::size_t i = 0; i < count_; ++i) {
      std::vector<double>& mine = factors_[i];
      if (mine.empty() && i == enters) mine.resize(count_, 0), mine[i] = 1;
      const double old = mine.empty() ? 0 : mine[enters];
      if (old == 0) continue;
      values_[i] += old * by * lacks;
      for (std::size_t k = 0; k < count_; ++k) mine[k] -= old * gain_[k];
      mine[enters] = old * by;
    }
    double cost = costs_[enters];
    for (std::size_t k = 0; k < count_; ++k) costs_[k] = std::max(0.0, costs_[k] - cost * gain_[k]);
    costs_[enters] = cost * by;
    slack_of_[enters] = row;
  }
}

// Any weights on rows give a bound: the sum of weight * least, plus each variable's reduced price times its cheaper
// bound.
double CoverProgram::dual_value(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high,
                                std::span<const double> prices, std::span<const std::pair<int, double>> weights) const {
  std::vector<double> rest(prices.begin(), prices.end());
  double sum = 0, size = 0;
  auto count = [&](double term) {
    sum += term;
    size += std::abs(term);
  };
  for (auto [row, weight] : weights) {
    count(weight * static_cast<double>(rows[row].least));
    for (auto [i, factor] : rows[row].terms) {
      rest[i] -= weight * static_cast<double>(factor);
      size += weight * static_cast<double>(factor) * high[i];
    }
  }
  for (std::size_t i = 0; i < count_; ++i) count(rest[i] * (rest[i] >= 0 ? low[i] : high[i]));
  return sum - 1e-13 * size;  // subtracts a bound on the rounding error
}

double CoverProgram::bound(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high) const {
  if (!ray_.empty() && dual_value(rows, low, high, std::vector<double>(count_, 0), ray_) > 0)
    return std::numeric_limits<double>::infinity();
  std::vector<std::pair<int, double>> weights;
  for (std::size_t k = 0; k < count_; ++k)
    if (slack_of_[k] >= 0) weights.emplace_back(slack_of_[k], costs_[k]);
  return dual_value(rows, low, high, prices_, weights);
}

}  // namespace karez::solve
