// What does a stage of a data set cost per element, and how much faster are stages that work at the same time?
//
//   bench_data_stages [--json FILE]
//
// range(n) gives scalars, and stages that do nothing are added one at a time. The cost of a stage is the difference to
// the same data set without it, divided by the number of elements; both are read in turn, nine times. Target: a map in
// the same actor takes at most 1 us per element. The other rows of this table have no target.
//
// Second table: `map` of a function that computes for 100 us, with two lanes and with one (target: 1.8 times as fast,
// if there are two cores); `interleave` of eight data sets whose elements take 10 ms each without computing, such as
// files on a remote disk, at the same time and one after the other (target: 7.2 times as fast).
//
// Third table: the part of the time in which the devices of a program wait for data. Each step takes 5 ms; the work of
// an element sleeps, and divided by the lanes takes 4 ms (target: at most 2 %). The last row shows that too few lanes
// are noticed; it has no target.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "bench/report.h"
#include "karez/base/text.h"
#include "karez/data/dataset.h"
#include "karez/runtime/stages/dataset_reader.h"

namespace karez::bench {
namespace {

using data::Dataset;
using data::Element;

// Seconds for one epoch.
double read(const Dataset& dataset, runtime::DataThreads& threads, std::int64_t expected) {
  runtime::DatasetReader reader(dataset, threads);
  const auto begin = std::chrono::steady_clock::now();
  reader.start();
  std::int64_t count = 0;
  while (reader.next()) ++count;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  require(count == expected, "an epoch has ", count, " elements instead of ", expected);
  return seconds;
}

struct Row {
  std::string name;
  Dataset with, without;                         // with and without the stage
  std::int64_t elements_with, elements_without;  // that the reader gets
  double target = 0;                             // ns; 0: no target
};

void compute(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {}
}

struct Speedup {
  std::string name;
  Dataset fast, slow;
  std::int64_t elements;
  double target;
};

std::vector<Speedup> speedups() {
  const auto busy = [](const Element& element) {
    compute(100e-6);
    return element;
  };
  const auto file = [](const Element&) {
    return data::range(12).map([](const Element& element) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return element;
    });
  };
  const Dataset numbers = data::range(10'000), files = data::range(8);
  std::vector<Speedup> out = {
      {"interleave of 8, 10 ms each", files.interleave(file, {8, 1, true}), files.flat_map(file), 96, 7.2}};
  if (std::thread::hardware_concurrency() >= 2)
    out.push_back(
        {"map with 2 lanes, 100 us", numbers.map(busy, {2, true}).batch(50), numbers.map(busy).batch(50), 200, 1.8});
  return out;
}

struct Steps {
  std::string name;
  Dataset dataset;
  double target;  // 0: none
};

std::vector<Steps> steps() {
  const auto sleeps = [](int milliseconds, int long_milliseconds, int one_in) {
    return [=](const Element& element) {
      const bool is_long = data::array_of(element).data<std::int64_t>()[0] % one_in == one_in - 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(is_long ? long_milliseconds : milliseconds));
      return element;
    };
  };
  const Dataset numbers = data::range(1000).filter([](const Element&) { return true; });
  return {{"4 ms, 1 lane", numbers.map(sleeps(4, 4, 2)), 0.02},
          {"16 ms, 4 lanes", numbers.map(sleeps(16, 16, 2), {4, true}), 0.02},
          {"8 ms, and each 8th 40 ms, 3 lanes", numbers.map(sleeps(8, 40, 8), {3, true}).prefetch(8), 0.02},
          {"16 ms, 2 lanes", numbers.map(sleeps(16, 16, 2), {2, true}), 0}};
}

// The part of the time after the first elements in which a program that takes 5 ms for each element waits for the next
// one.
double stall_share(const Dataset& dataset) {
  runtime::DataThreads threads;
  runtime::DatasetReader reader(dataset, threads);
  const auto seconds = [&](std::int64_t ticks) { return static_cast<double>(ticks) * threads.seconds_per_tick(); };
  reader.start();
  double stall = 0, all = 0;
  for (int step = 0; step < 120; ++step) {
    const std::int64_t begin = runtime::ticks();
    require(reader.next().has_value(), "the data set is too small");
    const std::int64_t now = runtime::ticks();
    threads.idle_clock()->launched(now);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    threads.idle_clock()->ended(runtime::ticks());
    const std::optional<std::int64_t> counted = threads.stalls_of_launch().take();
    if (step < 20) continue;
    stall += seconds(*counted), all += seconds(runtime::ticks() - begin);
  }
  return stall / all;
}

int run(const std::string& json) {
  constexpr std::int64_t count = 200'000;
  const auto same = [](const Element& element) { return element; };
  // The reader gets batches, except in the last row, so that its own cost is small.
  const Dataset numbers = data::range(count).filter([](const Element&) { return true; });
  const Dataset batches = numbers.batch(100), none = numbers.filter([](const Element&) { return false; });
  const std::vector<Row> rows = {
      {"map in the same actor", numbers.map(same).batch(100), batches, count / 100, count / 100, 1000},
      {"map with 2 lanes", numbers.map(same, {2, true}).batch(100), batches, count / 100, count / 100},
      {"prefetch(64)", numbers.prefetch(64).batch(100), batches, count / 100, count / 100},
      {"shuffle(1000)", numbers.shuffle({.buffer = 1000}).batch(100), batches, count / 100, count / 100},
      {"batch(100)", batches, none, count / 100, 0},
      {"reading each element", numbers, none, count, 0},
  };
  runtime::DataThreads threads;
  double worst = 0;
  std::string out;
  std::printf("%-24s %10s %10s %10s  ns per element\n", "", "median", "min", "max");
  for (const Row& row : rows) {
    std::vector<double> costs;
    for (int pair = 0; pair < 9; ++pair)
      costs.push_back((read(row.with, threads, row.elements_with) - read(row.without, threads, row.elements_without)) /
                      count * 1e9);
    std::sort(costs.begin(), costs.end());
    const double cost = median(costs);
    if (row.target > 0) worst = std::max(worst, cost / row.target);
    std::printf("%-24s %10.0f %10.0f %10.0f\n", row.name.c_str(), cost, costs.front(), costs.back());
    out += cat(out.empty() ? "" : ", ", quote(row.name), ": ", cost);
  }
  std::printf("\n%-28s %10s %10s %10s  times as fast\n", "", "median", "min", "max");
  for (const Speedup& row : speedups()) {
    std::vector<double> ratios;
    for (int pair = 0; pair < 5; ++pair) {
      const double slow = read(row.slow, threads, row.elements);
      ratios.push_back(slow / read(row.fast, threads, row.elements));
    }
    std::sort(ratios.begin(), ratios.end());
    worst = std::max(worst, row.target / median(ratios));
    std::printf("%-28s %10.2f %10.2f %10.2f\n", row.name.c_str(), median(ratios), ratios.front(), ratios.back());
    out += cat(", ", quote(row.name), ": ", median(ratios));
  }
  std::printf("\n%-36s %10s %10s %10s  %% of the time waiting, with steps of 5 ms\n", "", "median", "min", "max");
  for (const Steps& row : steps()) {
    std::vector<double> shares;
    for (int i = 0; i < 3; ++i) shares.push_back(stall_share(row.dataset));
    std::sort(shares.begin(), shares.end());
    if (row.target > 0) worst = std::max(worst, median(shares) / row.target);
    std::printf("%-36s %10.2f %10.2f %10.2f\n", row.name.c_str(), 100 * median(shares), 100 * shares.front(),
                100 * shares.back());
    out += cat(", ", quote(row.name), ": ", median(shares));
  }
  write_json(json, cat("{", out, "}"));
  std::printf("data_stages: worst ratio %.3f (target 1.000)\n", worst);
  return worst <= 1 ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int count, char** words) {
  try {
    return karez::bench::run(karez::bench::json_option(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
