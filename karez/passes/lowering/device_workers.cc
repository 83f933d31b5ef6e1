// Assigns devices to worker threads by load.
#include "karez/passes/lowering/device_workers.h"

#include <algorithm>
#include <numeric>

namespace karez::passes {
namespace {

constexpr double max_time_ratio = 0.95;  // of the busiest worker's time; at more, the assignment is round-robin

double busiest(const std::vector<double>& seconds, const std::vector<int>& worker, int workers) {
  std::vector<double> load(static_cast<std::size_t>(workers), 0.0);
  for (std::size_t d = 0; d < seconds.size(); ++d) load[static_cast<std::size_t>(worker[d])] += seconds[d];
  return *std::max_element(load.begin(), load.end());
}

}  // namespace

std::vector<int> device_workers(const std::vector<double>& seconds, int workers) {
  std::vector<int> turns(seconds.size()), by_load(seconds.size()), order(seconds.size());
  for (std::size_t d = 0; d < seconds.size(); ++d) turns[d] = static_cast<int>(d) % workers;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return seconds[static_cast<std::size_t>(a)] > seconds[static_cast<std::size_t>(b)];
  });
  std::vector<double> load(static_cast<std::size_t>(workers), 0.0);
  for (int d : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += seconds[static_cast<std::size_t>(d)];
    by_load[static_cast<std::size_t>(d)] = static_cast<int>(least - load.begin());
  }
  if (busiest(seconds, by_load, workers) >= max_time_ratio * busiest(seconds, turns, workers)) return turns;
  std::vector<int> number(static_cast<std::size_t>(workers), -1);  // in the order of the devices
  int known = 0;
  for (int& worker : by_load) {
    int& now = number[static_cast<std::size_t>(worker)];
    if (now < 0) now = known++;
    worker = now;
  }
  return by_load;
}

}  // namespace karez::passes
