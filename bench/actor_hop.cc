// What does a hop between actors cost? A piece passes from one actor to the next and its credit returns, in a plan
// loaded through Session.
//
//   bench_actor_hop [--json FILE]
//
// Two actors have empty bodies, with a register of two slots between them. A launch has many pieces, so the cost of the
// launch itself is negligible. A hop is one `filled` message and one `returned` message, with the acts that send them.
// It is measured on one worker, then on two pinned workers that poll (they spin longer than a hop takes), then on two
// workers that sleep after every message. Targets: 100 ns on one worker, 2 us on two workers that poll. If CAF is
// installed, bench_actor_hop_caf measures CAF actors, and a hop on one worker must take at most half the time of a hop
// in CAF.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/report.h"
#include "karez/device/cpu_budget.h"
#include "karez/plan/test_plan_builder.h"
#include "karez/runtime/session.h"

namespace karez::bench {
namespace {

Plan make_two_actors(int second_worker, int slots, int pieces) {
  PlanBuilder builder;
  ActorId a = builder.actor("a"), b = builder.actor("b", second_worker);
  builder.start(a, pieces);
  builder.edge(a, {b}, slots);
  builder.done(b, pieces);
  return builder.plan;
}

// Makes a chain of many actors, whose states do not fit in the L1 cache.
Plan make_chain(int actors, int pieces) {
  PlanBuilder builder;
  ActorId previous = builder.actor("0");
  builder.start(previous, pieces);
  for (int i = 1; i < actors; ++i) {
    ActorId next = builder.actor(std::to_string(i));
    builder.edge(previous, {next}, 2);
    previous = next;
  }
  builder.done(previous, pieces);
  return builder.plan;
}

struct Timing {
  double min = 0, median = 0, max = 0;  // ns per hop
};

Timing summarise(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2], times.back()};
}

// A plan in a separate session, launched once to warm up; each call of `time` measures one launch.
class Hopper {
 public:
  Hopper(const Plan& plan, SessionOptions options, double hops)
      : session_(options, kernels_),
        plan_(session_.load(plan)),
        hops_(hops) {
    time();
  }
  double time() {
    auto begin = std::chrono::steady_clock::now();
    session_.launch(plan_).wait();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / hops_;
  }

 private:
  KernelTable kernels_{{}};
  Session session_;
  int plan_;
  double hops_;
};

Timing time_hops(const Plan& plan, SessionOptions options, double hops, int rounds) {
  Hopper hopper(plan, options, hops);
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(hopper.time());
  return summarise(times);
}

// Returns the result of the CAF program, or 0 if it does not exist. The program is separate, because CAF is optional.
double caf_hop(const std::string& program_path) {
  auto program = std::filesystem::path(program_path).parent_path() / "bench_actor_hop_caf";
  if (!std::filesystem::exists(program)) return 0;
  FILE* pipe = popen(program.c_str(), "r");
  if (pipe == nullptr) return 0;
  double ns = 0;
  char line[256];
  while (fgets(line, sizeof line, pipe) != nullptr) std::sscanf(line, "hop %lf", &ns);
  return pclose(pipe) == 0 ? ns : 0;
}

struct Row {
  std::string name;
  Timing time;
  double target = 0;  // ns; 0: no target
};

int run(const std::string& program_path, const std::string& json) {
  constexpr int rounds = 11;
  std::vector<Row> rows;
  SessionOptions single_worker;
  single_worker.workers = 1;
  // Karez and the peer alternate, so that a slow machine slows both.
  std::vector<double> hop_times, caf_times;
  {
    Hopper hopper(make_two_actors(0, 2, 1000000), single_worker, 1e6);
    for (int i = 0; i < rounds; ++i) {
      hop_times.push_back(hopper.time());
      if (double ns = caf_hop(program_path); ns > 0) caf_times.push_back(ns);
    }
  }
  rows.push_back({"same worker, two actors", summarise(hop_times), 100});
  if (!caf_times.empty()) {
    rows.push_back({"the same, relative to CAF / 2", summarise(hop_times), summarise(caf_times).median / 2});
    rows.push_back({"CAF, one thread", summarise(caf_times), 0});
  }
  rows.push_back(
      {"same worker, chain of 1000", time_hops(make_chain(1000, 100), single_worker, 999.0 * 100, rounds), 0});
  if (cpu_budget().cores >= 2) {
    SessionOptions polling;
    polling.workers = 2;
    polling.pin = true;
    polling.spin_microseconds = 1000000;
    rows.push_back({"two workers, polling", time_hops(make_two_actors(1, 2, 50000), polling, 50000, rounds), 2000});
    SessionOptions sleeping = polling;
    sleeping.spin_microseconds = 0;
    rows.push_back({"two workers, sleeping", time_hops(make_two_actors(1, 1, 2000), sleeping, 2000, rounds), 0});
  } else {
    std::printf("one core: two workers are not measured\n");
  }

  double max_ratio = 0;
  std::printf("%-30s %10s %10s %10s %10s %7s\n", "one hop, ns", "min", "median", "max", "target", "ratio");
  for (const Row& row : rows) {
    std::printf("%-30s %10.1f %10.1f %10.1f ", row.name.c_str(), row.time.min, row.time.median, row.time.max);
    if (row.target == 0) {
      std::printf("%10s %7s\n", "-", "-");
      continue;
    }
    std::printf("%10.1f %7.3f\n", row.target, row.time.median / row.target);
    max_ratio = std::max(max_ratio, row.time.median / row.target);
  }
  if (caf_times.empty()) std::printf("CAF is not installed (./dev deps --peers): not compared\n");
  std::printf("actor_hop: worst ratio %.3f (target 1.000)\n", max_ratio);
  std::string text = cat("{\"name\": \"actor_hop\", \"worst\": ", max_ratio, ", \"target\": 1.0, \"rows\": [");
  for (const Row& row : rows)
    text += cat(&row == rows.data() ? "" : ", ", "{\"name\": \"", row.name, "\", \"ns\": ", row.time.median,
                ", \"target\": ", row.target, "}");
  write_json(json, text + "]}");
  return max_ratio <= 1.0 ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int count, char** words) { return karez::bench::run(words[0], karez::bench::json_option(count, words)); }
