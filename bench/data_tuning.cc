// Are automatic numbers of lanes and slots as good as the best given ones?
//
//   bench_data_tuning [--json FILE]
//
// Six data sets: functions that wait, that compute (two stages), whose times differ, a source with bursts, two sources,
// and tiny elements; each with two loads. Automatic numbers run for 5 s, are measured for 2 s, and the same after the
// load has changed. The given numbers are all combinations of a few. Target: at least 0.9 of the best of them.
// KAREZ_PIPELINE=waiting runs only this data set, and KAREZ_EXPLAIN=1 prints why the numbers are what they are.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/report.h"
#include "karez/base/text.h"
#include "karez/data/dataset.h"
#include "karez/runtime/stages/dataset_reader.h"

namespace karez::bench {
namespace {

using data::automatic;
using data::Dataset;
using data::Element;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
void wait(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
void compute(double seconds) {
  for (const double end = now() + seconds; now() < end;) continue;
}
std::int64_t number_of(const Element& element) { return data::array_of(element).data<std::int64_t>()[0]; }

std::atomic<int> load{0};
constexpr std::int64_t many = 1'000'000'000;

struct Given {
  int lanes = 1, second = 1, slots = 2;
};

struct Pipeline {
  std::string name;
  std::function<Dataset(const Given&)> make;
  double reader = 0;  // seconds that the reader waits after each element
};

// The elements pass through a function of their number.
template <class Work> Dataset through(const Dataset& dataset, int lanes, Work work) {
  return dataset.map(
      [work](const Element& element) {
        work(number_of(element));
        return element;
      },
      {lanes});
}

std::vector<Pipeline> pipelines() {
  std::vector<Pipeline> out;
  out.push_back({"waiting", [](const Given& given) {
                   return through(data::range(many), given.lanes,
                                  [](std::int64_t) { wait(load == 0 ? 10e-3 : 40e-3); });
                 }});
  out.push_back(
      {"computing", [](const Given& given) {
         const Dataset first =
             through(data::range(many), given.lanes, [](std::int64_t) { compute(load == 0 ? 5e-3 : 0.5e-3); });
         return through(first, given.second, [](std::int64_t) { compute(load == 0 ? 0.5e-3 : 5e-3); }).batch(4);
       }});
  out.push_back({"skewed",
                 [](const Given& given) {
                   return through(data::range(many), given.lanes,
                                  [](std::int64_t n) {
                                    const bool slow = data::RandomKey{7, 0, n}.uniform(0) < 0.05;
                                    wait(slow ? (load == 0 ? 60e-3 : 240e-3) : 2e-3);
                                  })
                       .prefetch(given.slots);
                 },
                 2e-3});
  out.push_back({"bursty",
                 [](const Given& given) {
                   const Dataset source = data::range(many).filter([](const Element& element) {
                     const std::int64_t burst = load == 0 ? 40 : 120;
                     if (number_of(element) % burst == 0) wait(static_cast<double>(burst) * 3e-3);
                     return true;
                   });
                   return through(source.prefetch(given.slots), given.lanes, [](std::int64_t) { wait(3e-3); });
                 },
                 2.8e-3});
  out.push_back({"two sources",
                 [](const Given& given) {
                   const auto part = [](int slow, int lanes) {
                     return through(data::range(many), lanes,
                                    [slow](std::int64_t) { wait(load == slow ? 16e-3 : 2e-3); });
                   };
                   return zip({part(0, given.lanes), part(1, given.second)});
                 },
                 1e-3});
  out.push_back({"tiny", [](const Given& given) {
                   return through(data::range(many), given.lanes,
                                  [](std::int64_t) {
                                    if (load == 1) compute(50e-6);
                                  })
                       .batch(100)
                       .prefetch(given.slots);
                 }});
  return out;
}

// Elements per second, after `before` seconds.
double rate_of(runtime::DatasetReader& reader, double pause, double before, double seconds) {
  std::int64_t count = 0;
  double begin = now(), end = begin + before;
  for (bool measured = false;;) {
    require(reader.next().has_value(), "the data set has ended");
    if (pause > 0) wait(pause);
    ++count;
    if (now() < end) continue;
    if (measured) return static_cast<double>(count) / (now() - begin);
    measured = true, count = 0, begin = now(), end = begin + seconds;
  }
}

int run(const std::string& json) {
  std::string out;
  double worst = 2;
  std::printf("%-14s %5s %12s %12s %7s  best given numbers\n", "", "load", "automatic/s", "given/s", "ratio");
  const char* only = std::getenv("KAREZ_PIPELINE");
  for (const Pipeline& pipeline : pipelines()) {
    if (only != nullptr && pipeline.name != only) continue;
    double chosen[2];
    {
      load = 0;
      runtime::DataThreads threads;
      runtime::DatasetReader reader(pipeline.make({automatic, automatic, automatic}), threads);
      reader.start();
      for (int i = 0; i < 2; ++i) {
        load = i;
        chosen[i] = rate_of(reader, pipeline.reader, 5, 2);
        if (std::getenv("KAREZ_EXPLAIN") != nullptr) std::printf("%s", reader.explain().c_str());
      }
    }
    for (int i = 0; i < 2; ++i) {
      load = i;
      double best = 0;
      std::string which;
      const bool two = pipeline.name == "computing" || pipeline.name == "two sources";
      for (int lanes : {1, 2, 8, 64})
        for (int second : two ? std::vector{1, 2, 8, 64} : std::vector{1})
          for (int slots : two || pipeline.name == "waiting" ? std::vector{2} : std::vector{2, 128}) {
            runtime::DataThreads threads;
            runtime::DatasetReader reader(pipeline.make({lanes, second, slots}), threads);
            reader.start();
            const double rate = rate_of(reader, pipeline.reader, 0.7, 1);
            if (rate > best) best = rate, which = cat("lanes ", lanes, ", ", second, ", slots ", slots);
          }
      worst = std::min(worst, chosen[i] / best);
      std::printf("%-14s %5d %12.1f %12.1f %7.3f  %s\n", pipeline.name.c_str(), i, chosen[i], best, chosen[i] / best,
                  which.c_str());
      std::fflush(stdout);
      out += cat(out.empty() ? "" : ", ", quote(cat(pipeline.name, " ", i)), ": ", chosen[i] / best);
    }
  }
  write_json(json, cat("{", out, "}"));
  std::printf("data_tuning: worst ratio %.3f (target 0.900)\n", worst);
  return worst >= 0.9 ? 0 : 1;
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
