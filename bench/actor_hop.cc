// What does a hop between actors cost? A piece passes from one actor to the next and its credit returns, in a plan
// loaded through Session.
//
//   bench_actor_hop [--json FILE]
//
// Two actors with empty bodies and a register of two slots between them; a launch has many pieces, so its own cost is
// negligible. A hop is one `filled` and one `returned` with the acts that send them. On one worker, then on two
// workers: pinned and polling (spinning longer than a hop), then sleeping after every message. Targets: 100 ns and 2
// us. If CAF is installed, bench_actor_hop_caf measures its actors, and a hop must take at most half of its time.
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
#include "karez/plan/plan_builder.h"
#include "karez/runtime/session.h"

namespace karez::bench {
namespace {

Plan two_actors(int other_worker, int slots, int pieces) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b", other_worker);
  s.start(a, pieces);
  s.edge(a, {b}, slots);
  s.done(b, pieces);
  return s.plan;
}

// A chain of many actors, whose states do not fit in the first cache.
Plan chain(int actors, int pieces) {
  PlanBuilder s;
  ActorId last = s.actor("0");
  s.start(last, pieces);
  for (int i = 1; i < actors; ++i) {
    ActorId next = s.actor(std::to_string(i));
    s.edge(last, {next}, 2);
    last = next;
  }
  s.done(last, pieces);
  return s.plan;
}

struct Timing {
  double least = 0, median = 0, most = 0;  // ns per hop
};

Timing timing_of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2], times.back()};
}

// A plan in its own session, launched once to warm up; each call times one launch.
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
  return timing_of(times);
}

// The output of the peer's program, which is separate because CAF is optional; 0 if it does not exist.
double caf_hop(const std::string& self) {
  auto program = std::filesystem::path(self).parent_path() / "bench_actor_hop_caf";
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

int run(const std::string& self, const std::string& json) {
  constexpr int rounds = 11;
  std::vector<Row> rows;
  SessionOptions one;
  one.workers = 1;
  // Karez and the peer alternate, so that a slower machine slows both.
  std::vector<double> ours, peers;
  {
    Hopper hopper(two_actors(0, 2, 1000000), one, 1e6);
    for (int i = 0; i < rounds; ++i) {
      ours.push_back(hopper.time());
      if (double ns = caf_hop(self); ns > 0) peers.push_back(ns);
    }
  }
  rows.push_back({"same worker, two actors", timing_of(ours), 100});
  if (!peers.empty()) {
    rows.push_back({"the same against half of CAF", timing_of(ours), timing_of(peers).median / 2});
    rows.push_back({"CAF, one thread", timing_of(peers), 0});
  }
  rows.push_back({"same worker, chain of 1000", time_hops(chain(1000, 100), one, 999.0 * 100, rounds), 0});
  if (cpu_budget().cores >= 2) {
    SessionOptions polling;
    polling.workers = 2;
    polling.pin = true;
    polling.spin_microseconds = 1000000;
    rows.push_back({"two workers, polling", time_hops(two_actors(1, 2, 50000), polling, 50000, rounds), 2000});
    SessionOptions sleeping = polling;
    sleeping.spin_microseconds = 0;
    rows.push_back({"two workers, sleeping", time_hops(two_actors(1, 1, 2000), sleeping, 2000, rounds), 0});
  } else {
    std::printf("one core: two workers are not measured\n");
  }

  double worst = 0;
  std::printf("%-30s %10s %10s %10s %10s %7s\n", "one hop, ns", "least", "median", "most", "target", "ratio");
  for (const Row& row : rows) {
    std::printf("%-30s %10.1f %10.1f %10.1f ", row.name.c_str(), row.time.least, row.time.median, row.time.most);
    if (row.target == 0) {
      std::printf("%10s %7s\n", "-", "-");
      continue;
    }
    std::printf("%10.1f %7.3f\n", row.target, row.time.median / row.target);
    worst = std::max(worst, row.time.median / row.target);
  }
  if (peers.empty()) std::printf("CAF is not installed (./dev deps --peers): not compared\n");
  std::printf("actor_hop: worst ratio %.3f (target 1.000)\n", worst);
  std::string text = cat("{\"name\": \"actor_hop\", \"worst\": ", worst, ", \"target\": 1.0, \"rows\": [");
  for (const Row& row : rows)
    text += cat(&row == rows.data() ? "" : ", ", "{\"name\": \"", row.name, "\", \"ns\": ", row.time.median,
                ", \"target\": ", row.target, "}");
  write_json(json, text + "]}");
  return worst <= 1.0 ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int count, char** words) { return karez::bench::run(words[0], karez::bench::json_option(count, words)); }
