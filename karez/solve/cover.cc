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
    double violation = tight;
    int row = -1, variable = -1;
    double sign = 1;
    for (std::size_t i = 0; i < count_; ++i) {
      if (low[i] - values_[i] > violation) violation = low[i] - values_[i], variable = static_cast<int>(i), sign = 1;
      if (values_[i] - high[i] > violation) violation = values_[i] - high[i], variable = static_cast<int>(i), sign = -1;
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      auto sum = static_cast<double>(rows[r].bound);
      for (auto [i, factor] : rows[r].terms) sum -= static_cast<double>(factor) * values_[i];
      if (sum > violation) violation = sum, row = static_cast<int>(r);
    }
    if (row < 0 && variable < 0) return Outcome::solved;
    if (pivots == max_pivots) return Outcome::stopped;

    std::fill(gain_.begin(), gain_.end(), 0);
    auto gather = [&](int i, double factor) {
      const std::vector<double>& own_factors = factors_[i];
      if (own_factors.empty()) gain_[i] += factor;
      for (std::size_t k = 0; k < own_factors.size(); ++k) gain_[k] += factor * own_factors[k];
    };
    if (row >= 0) {
      for (auto [i, factor] : rows[row].terms) gather(i, static_cast<double>(factor));
    } else {
      gather(variable, sign);
    }

    std::size_t entering = count_;
    for (std::size_t k = 0; k < count_; ++k) {
      if (gain_[k] < 1e-9) continue;
      double comparison = entering < count_ ? costs_[k] * gain_[entering] - costs_[entering] * gain_[k] : -1;
      if (comparison < 0 || (comparison == 0 && gain_[k] > gain_[entering])) entering = k;
    }
    if (entering == count_) {
      if (row >= 0) ray_.emplace_back(row, 1);
      for (std::size_t k = 0; k < count_; ++k)
        if (slack_of_[k] >= 0 && gain_[k] < 0) ray_.emplace_back(slack_of_[k], -gain_[k]);
      return Outcome::infeasible;
    }

    double scale = 1 / gain_[entering];
    for (std::size_t k = 0; k < count_; ++k) gain_[k] = k == entering ? 1 : gain_[k] * scale;
    for (std::size_t i = 0; i < count_; ++i) {
      std::vector<double>& own_factors = factors_[i];
      if (own_factors.empty() && i == entering) own_factors.resize(count_, 0), own_factors[i] = 1;
      const double old = own_factors.empty() ? 0 : own_factors[entering];
      if (old == 0) continue;
      values_[i] += old * scale * violation;
      for (std::size_t k = 0; k < count_; ++k) own_factors[k] -= old * gain_[k];
      own_factors[entering] = old * scale;
    }
    double cost = costs_[entering];
    for (std::size_t k = 0; k < count_; ++k) costs_[k] = std::max(0.0, costs_[k] - cost * gain_[k]);
    costs_[entering] = cost * scale;
    slack_of_[entering] = row;
  }
}

// Any weights on rows give a lower bound: the sum of weight * bound over the rows, plus, for each variable, its reduced
// price times the bound of its range that makes this product smaller.
double CoverProgram::dual_value(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high,
                                std::span<const double> prices, std::span<const std::pair<int, double>> weights) const {
  std::vector<double> reduced_prices(prices.begin(), prices.end());
  double sum = 0, size = 0;
  auto add_term = [&](double term) {
    sum += term;
    size += std::abs(term);
  };
  for (auto [row, weight] : weights) {
    add_term(weight * static_cast<double>(rows[row].bound));
    for (auto [i, factor] : rows[row].terms) {
      reduced_prices[i] -= weight * static_cast<double>(factor);
      size += weight * static_cast<double>(factor) * high[i];
    }
  }
  for (std::size_t i = 0; i < count_; ++i) add_term(reduced_prices[i] * (reduced_prices[i] >= 0 ? low[i] : high[i]));
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
