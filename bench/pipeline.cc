// How much longer does a pipeline take than its lower bound? A timer ends the acts of the stages, so that more stages
// can be busy than there are cores.
//
//   bench_pipeline [--json FILE]
//
// A forward act takes 2 ms, a backward act 4 ms. The bound for p stages and m micro-batches in one launch is
// (m + p - 1) (forward + backward), with p - i slots on stage i for the values that its backward acts read. The bound
// for n pieces in a chain of p stages of 2 ms, with two slots each, is (n + p - 1) x 2 ms. Each ratio is the median of
// five launches divided by the bound. Target: 1.05, which leaves time for wake-ups and the hops between stages.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/report.h"
#include "karez/kernels/kernel.h"
#include "karez/plan/test_plan_builder.h"
#include "karez/runtime/session.h"

namespace {
using namespace karez;
using namespace karez::plan;
using namespace karez::runtime;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr double forward_ms = 2, backward_ms = 4, target = 1.05;
constexpr int launches = 5;

// A thread that ends acts when their time is over. It spins for the last 150 us, because a sleep would end too late, by
// more than the time of a hop.
class Timer {
 public:
  Timer() : thread_([this] { run(); }) {}
  ~Timer() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  AsyncKernel kernel(const char* name, double milliseconds) {
    return {name, [this, milliseconds](const kernels::KernelArgs&, const Completion& completion) {
              {
                std::lock_guard lock(mutex_);
                completions_.emplace(
                    Clock::now() + std::chrono::duration_cast<Clock::duration>(Milliseconds(milliseconds)), completion);
              }
              changed_.notify_one();
            }};
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      if (completions_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto end = completions_.begin()->first;
      constexpr auto spin_time = std::chrono::microseconds(150);
      if (Clock::now() + spin_time < end) {
        changed_.wait_until(lock, end - spin_time);
        continue;
      }
      while (Clock::now() < end) continue;
      const Completion completion = completions_.begin()->second;
      completions_.erase(completions_.begin());
      lock.unlock();
      completion();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, Completion> completions_;
  bool stopped_ = false;
  std::thread thread_;
};

// Stage i runs on stream i; its backward acts have priority over its forward acts.
Plan make_pipeline(int stages, int pieces) {
  PlanBuilder builder(1, "pipeline");
  std::vector<ActorId> forward, backward;
  for (int i = 0; i < stages; ++i) {
    forward.push_back(builder.actor(cat("forward ", i), i));
    builder.plan.actors[forward.back()].priority = 1;
    builder.call(forward.back(), "bench.forward", {}, {});
    backward.push_back(builder.actor(cat("backward ", i), i));
    builder.call(backward.back(), "bench.backward", {}, {});
  }
  builder.start(forward[0], pieces);
  for (int i = 0; i < stages; ++i) {
    const auto stage = static_cast<std::size_t>(i);
    builder.edge(forward[stage], {backward[stage]}, stages - i);
    if (i + 1 < stages) builder.edge(forward[stage], {forward[stage + 1]}, 2);
    if (i > 0) builder.edge(backward[stage], {backward[stage - 1]}, 2);
  }
  builder.done(backward[0], pieces);
  return builder.plan;
}

Plan make_chain(int stages, int pieces) {
  PlanBuilder builder(1, "chain");
  std::vector<ActorId> actors;
  for (int i = 0; i < stages; ++i) {
    actors.push_back(builder.actor(cat("stage ", i), i));
    builder.call(actors.back(), "bench.forward", {}, {});
    if (i > 0) builder.edge(actors[static_cast<std::size_t>(i) - 1], {actors.back()}, 2);
  }
  builder.start(actors.front(), pieces);
  builder.done(actors.back(), pieces);
  return builder.plan;
}

// Returns the median milliseconds of a launch.
double median_launch_ms(const Plan& plan) {
  Timer timer;
  kernels::KernelTable table({});
  Session session({.workers = 1}, table);
  session.add(timer.kernel("bench.forward", forward_ms));
  session.add(timer.kernel("bench.backward", backward_ms));
  const int plan_number = session.load(plan);
  session.launch(plan_number).wait();
  std::vector<double> times;
  for (int i = 0; i < launches; ++i) {
    const auto begin = Clock::now();
    session.launch(plan_number).wait();
    times.push_back(Milliseconds(Clock::now() - begin).count());
  }
  return bench::median(std::move(times));
}

}  // namespace

int main(int count, char** words) {
  const std::string json = bench::json_option(count, words);
  struct Row {
    std::string name;
    Plan plan;
    double bound;
  };
  std::vector<Row> rows;
  for (int p : {2, 4, 8})
    for (int m : {8, 32})
      rows.push_back(
          {cat(p, " stages, ", m, " micro-batches"), make_pipeline(p, m), (m + p - 1) * (forward_ms + backward_ms)});
  for (int p : {2, 4})
    rows.push_back({cat("a chain of ", p, ", 60 pieces"), make_chain(p, 60), (60 + p - 1) * forward_ms});
  std::printf("%-28s %10s %10s %8s\n", "", "bound, ms", "median", "ratio");
  double max_ratio = 0;
  std::string text;
  for (const Row& row : rows) {
    const double launch_ms = median_launch_ms(row.plan), ratio = launch_ms / row.bound;
    max_ratio = std::max(max_ratio, ratio);
    std::printf("%-28s %10.1f %10.2f %8.3f\n", row.name.c_str(), row.bound, launch_ms, ratio);
    text += cat(text.empty() ? "{" : ", ", "\"", row.name, "\": ", ratio);
  }
  bench::write_json(json, text + "}");
  std::printf("pipeline: worst ratio %.3f (target %.2f)\n", max_ratio, target);
  return max_ratio <= target ? 0 : 1;
}
