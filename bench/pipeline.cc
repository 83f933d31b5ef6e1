// How much longer does a pipeline take than its lower bound? The acts of its stages end by a timer, so that more stages
// than cores can be busy.
//
//   bench_pipeline [--json FILE]
//
// Forward takes 2 ms, backward 4 ms. Bound: (m + p - 1) (forward + backward) for p stages and m micro-batches in one
// launch, with p - i slots on stage i for the values that its backward reads; for a chain of stages of 2 ms with two
// slots each, (n + p - 1) x 2 ms for n pieces. Every figure is the median of five launches over the bound. Target: 1.05
// (for wake-ups and the hops between stages).
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
#include "karez/plan/plan_builder.h"
#include "karez/runtime/session.h"

namespace {
using namespace karez;
using namespace karez::plan;
using namespace karez::runtime;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr double forward_ms = 2, backward_ms = 4, target = 1.05;
constexpr int launches = 5;

// A thread that ends acts when their time is over. It spins at the end, because a sleep ends late by more than the time
// of a hop.
class Timer {
 public:
  Timer() : thread_([this] { run(); }) {}
  ~Timer() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  AsyncKernel kernel(const char* name, double milliseconds) {
    return {name, [this, milliseconds](const kernels::KernelArgs&, const Completion& done) {
              {
                std::lock_guard lock(mutex_);
                due_.emplace(Clock::now() + std::chrono::duration_cast<Clock::duration>(Milliseconds(milliseconds)),
                             done);
              }
              changed_.notify_one();
            }};
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      if (due_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto first = due_.begin()->first;
      constexpr auto early = std::chrono::microseconds(150);
      if (Clock::now() + early < first) {
        changed_.wait_until(lock, first - early);
        continue;
      }
      while (Clock::now() < first) continue;
      const Completion done = due_.begin()->second;
      due_.erase(due_.begin());
      lock.unlock();
      done();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, Completion> due_;
  bool over_ = false;
  std::thread thread_;
};

// Stage i runs on stream i; its backward has priority over its forward.
Plan pipeline(int stages, int pieces) {
  PlanBuilder s(1, "pipeline");
  std::vector<ActorId> forward, backward;
  for (int i = 0; i < stages; ++i) {
    forward.push_back(s.actor(cat("forward ", i), i));
    s.plan.actors[forward.back()].priority = 1;
    s.call(forward.back(), "bench.forward", {}, {});
    backward.push_back(s.actor(cat("backward ", i), i));
    s.call(backward.back(), "bench.backward", {}, {});
  }
  s.start(forward[0], pieces);
  for (int i = 0; i < stages; ++i) {
    const auto at = static_cast<std::size_t>(i);
    s.edge(forward[at], {backward[at]}, stages - i);
    if (i + 1 < stages) s.edge(forward[at], {forward[at + 1]}, 2);
    if (i > 0) s.edge(backward[at], {backward[at - 1]}, 2);
  }
  s.done(backward[0], pieces);
  return s.plan;
}

Plan chain(int stages, int pieces) {
  PlanBuilder s(1, "chain");
  std::vector<ActorId> actors;
  for (int i = 0; i < stages; ++i) {
    actors.push_back(s.actor(cat("stage ", i), i));
    s.call(actors.back(), "bench.forward", {}, {});
    if (i > 0) s.edge(actors[static_cast<std::size_t>(i) - 1], {actors.back()}, 2);
  }
  s.start(actors.front(), pieces);
  s.done(actors.back(), pieces);
  return s.plan;
}

// Median milliseconds of a launch.
double measured(const Plan& plan) {
  Timer timer;
  kernels::KernelTable table({});
  Session session({.workers = 1}, table);
  session.add(timer.kernel("bench.forward", forward_ms));
  session.add(timer.kernel("bench.backward", backward_ms));
  const int number = session.load(plan);
  session.launch(number).wait();
  std::vector<double> times;
  for (int i = 0; i < launches; ++i) {
    const auto began = Clock::now();
    session.launch(number).wait();
    times.push_back(Milliseconds(Clock::now() - began).count());
  }
  return bench::median(std::move(times));
}

}  // namespace

int main(int count, char** words) {
  const std::string json = bench::json_option(count, words);
  struct Row {
    std::string what;
    Plan plan;
    double bound;
  };
  std::vector<Row> rows;
  for (int p : {2, 4, 8})
    for (int m : {8, 32})
      rows.push_back(
          {cat(p, " stages, ", m, " micro-batches"), pipeline(p, m), (m + p - 1) * (forward_ms + backward_ms)});
  for (int p : {2, 4}) rows.push_back({cat("a chain of ", p, ", 60 pieces"), chain(p, 60), (60 + p - 1) * forward_ms});
  std::printf("%-28s %10s %10s %8s\n", "", "bound, ms", "median", "ratio");
  double worst = 0;
  std::string text;
  for (const Row& row : rows) {
    const double took = measured(row.plan), ratio = took / row.bound;
    worst = std::max(worst, ratio);
    std::printf("%-28s %10.1f %10.2f %8.3f\n", row.what.c_str(), row.bound, took, ratio);
    text += cat(text.empty() ? "{" : ", ", "\"", row.what, "\": ", ratio);
  }
  bench::write_json(json, text + "}");
  std::printf("pipeline: worst ratio %.3f (target %.2f)\n", worst, target);
  return worst <= target ? 0 : 1;
}
