// Assigns devices to worker threads by load.
#include "karez/passes/lowering/device_workers.h"

#include <algorithm>
#include <numeric>

namespace karez::passes {
namespace {

// The assignment by load is used if the busiest worker's time is at most this fraction of its time by round-robin.
constexpr double max_time_ratio = 0.95;

double max_load(const std::vector<double>& seconds, const std::vector<int>& worker, int workers) {
  std::vector<double> load(static_cast<std::size_t>(workers), 0.0);
  for (std::size_t d = 0; d < seconds.size(); ++d) load[static_cast<std::size_t>(worker[d])] += seconds[d];
  return *std::max_element(load.begin(), load.end());
}

}  // namespace

std::vector<int> device_workers(const std::vector<double>& seconds, int workers) {
  std::vector<int> round_robin(seconds.size()), by_load(seconds.size()), order(seconds.size());
  for (std::size_t d = 0; d < seconds.size(); ++d) round_robin[d] = static_cast<int>(d) % workers;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return seconds[static_cast<std::size_t>(a)] > seconds[static_cast<std::size_t>(b)];
  });
  std::vector<double> load(static_cast<std::size_t>(workers), 0.0);
  for (int d : order) {
    const auto min_load = std::min_element(load.begin(), load.end());
    *min_load += seconds[static_cast<std::size_t>(d)];
    by_load[static_cast<std::size_t>(d)] = static_cast<int>(min_load - load.begin());
  }
  if (max_load(seconds, by_load, workers) >= max_time_ratio * max_load(seconds, round_robin, workers))
    return round_robin;
  std::vector<int> new_number(static_cast<std::size_t>(workers), -1);  // in the order of the devices
  int numbered_workers = 0;
  for (int& worker : by_load) {
    int& worker_number = new_number[static_cast<std::size_t>(worker)];
    if (worker_number < 0) worker_number = numbered_workers++;
    worker = worker_number;
  }
  return by_load;
}

}  // namespace karez::passes
