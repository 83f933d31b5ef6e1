// Compares each rank with the median of the others, launch by launch.
#include "karez/control/straggler_detector.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace karez::control {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kernels: return "kernels";
    case Phase::source: return "sources";
    case Phase::host: return "program between launches";
  }
  return "?";
}

namespace {

// Returns for each rank the median time of the other ranks with the same work in this phase; nullopt if there are none.
// Takes O(n log n) for n ranks.
std::vector<std::optional<double>> medians_of_others(const std::vector<RankTime>& spent, std::size_t phase) {
  auto work = [&](std::size_t rank) { return phase == static_cast<std::size_t>(Phase::host) ? 0 : spent[rank].work; };
  std::vector<std::size_t> order(spent.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(work(a), spent[a].seconds[phase]) < std::pair(work(b), spent[b].seconds[phase]);
  });
  std::vector<std::optional<double>> out(spent.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && work(order[end]) == work(order[begin])) ++end;
    const std::size_t middle = (end - begin - 1) / 2;  // index of the median among the others
    if (end - begin < 2) continue;
    for (std::size_t at = begin; at < end; ++at)
      out[order[at]] = spent[order[begin + middle + (at - begin <= middle ? 1 : 0)]].seconds[phase];
  }
  return out;
}

}  // namespace

std::vector<SlowRank> StragglerDetector::launch(const std::vector<RankTime>& times) {
  std::vector<RankTime> spent = times;
  for (std::size_t rank = 0; rank < spent.size(); ++rank)
    for (std::size_t phase = 0; phase < phases; ++phase) spent[rank].seconds[phase] -= previous_[rank].seconds[phase];
  previous_ = times;
  std::vector<SlowRank> out;
  if (!std::exchange(has_previous_, true)) return out;  // time before the first launch does not count
  std::array<std::vector<std::optional<double>>, phases> medians;
  for (std::size_t phase = 0; phase < phases; ++phase) medians[phase] = medians_of_others(spent, phase);
  for (std::size_t rank = 0; rank < spent.size(); ++rank)
    for (std::size_t phase = 0; phase < phases; ++phase) {
      Count& count = counts_[rank][phase];
      const double own_seconds = spent[rank].seconds[phase];
      const std::optional<double>& median = medians[phase][rank];
      if (!median || own_seconds < slowdown_factor * *median + min_excess_seconds) {
        count.slow = 0;
        count.seconds = count.others_median = 0;
        continue;
      }
      count.seconds += own_seconds;
      count.others_median += *median;
      if (++count.slow < consecutive_launches || std::exchange(count.reported, true)) continue;
      out.push_back({static_cast<int>(rank), static_cast<Phase>(phase), count.seconds / count.slow,
                     count.others_median / count.slow});
    }
  return out;
}

}  // namespace karez::control
