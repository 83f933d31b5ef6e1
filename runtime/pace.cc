// Each rank beside the middle of the others, launch by launch.
#include "runtime/pace.h"

#include <algorithm>
#include <utility>

namespace karez::runtime {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kernels: return "kernels";
    case Phase::source: return "sources";
    case Phase::host: return "program between launches";
  }
  return "?";
}

// None where nobody does the same.
std::optional<double> Pace::middle_of_others(const std::vector<Spent>& spent, std::size_t rank, std::size_t phase) const {
  std::vector<double> others;
  for (std::size_t other = 0; other < spent.size(); ++other)
    if (other != rank && (phase == static_cast<std::size_t>(Phase::host) || spent[other].work == spent[rank].work))
      others.push_back(spent[other].seconds[phase]);
  if (others.empty()) return std::nullopt;
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
  std::nth_element(others.begin(), middle, others.end());
  return *middle;
}

std::vector<SlowRank> Pace::launch(const std::vector<Spent>& now) {
  std::vector<Spent> spent = now;
  for (std::size_t rank = 0; rank < spent.size(); ++rank)
    for (std::size_t phase = 0; phase < phases; ++phase) spent[rank].seconds[phase] -= before_[rank].seconds[phase];
  before_ = now;
  std::vector<SlowRank> out;
  if (!std::exchange(begun_, true)) return out;  // what was spent before the first launch is nobody's
  for (std::size_t rank = 0; rank < spent.size(); ++rank)
    for (std::size_t phase = 0; phase < phases; ++phase) {
      Count& count = counts_[rank][phase];
      const double mine = spent[rank].seconds[phase];
      const auto others = middle_of_others(spent, rank, phase);
      if (!others || mine < times * *others + least) {
        count.slow = 0;
        count.seconds = count.others = 0;
        if (++count.well >= in_a_row) count.told = false;
        continue;
      }
      count.well = 0;
      count.seconds += mine;
      count.others += *others;
      if (++count.slow < in_a_row || std::exchange(count.told, true)) continue;
      out.push_back({static_cast<int>(rank), static_cast<Phase>(phase), count.seconds / count.slow, count.others / count.slow});
    }
  return out;
}

}  // namespace karez::runtime
