// Is the engine's cost of an act independent of the number of actors?
//
//   bench_engine [--json FILE]
//
// Chains of 10 to 10,000 actors with empty bodies on one worker, with two slots between neighbours; every launch has
// about a million acts, each with its begin and end, one `filled` and one `returned`. The rounds alternate between the
// sizes. Targets: a spread of at most 20 % from 10 to 1,000 actors, and at most 100 ns per act at 10,000. If oneTBB is
// installed, bench_engine_tbb measures its flow graph with the same chains.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/report.h"
#include "karez/plan/plan_builder.h"
#include "karez/runtime/session.h"

namespace karez::bench {
namespace {

constexpr int sizes[] = {10, 100, 1000, 10'000};
constexpr int acts = 1'000'000, rounds = 9;

Plan chain(int actors) {
  PlanBuilder s;
  const int pieces = acts / actors;
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

struct Chain {
  Session session;
  int plan;
  std::vector<double> ns;  // ns per act, by round

  Chain(int actors, const KernelTable& none) : session({.workers = 1}, none), plan(session.load(chain(actors))) {
    time();
  }
  double time() {
    auto began = std::chrono::steady_clock::now();
    session.launch(plan).wait();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began).count() / acts;
  }
};

// The output of the peer's program by size; it is a separate program, because oneTBB is optional.
std::map<int, double> tbb_acts(const std::string& self) {
  std::map<int, double> out;
  auto program = std::filesystem::path(self).parent_path() / "bench_engine_tbb";
  if (!std::filesystem::exists(program)) return out;
  FILE* pipe = popen(program.c_str(), "r");
  if (pipe == nullptr) return out;
  char line[256];
  int actors = 0;
  double ns = 0;
  while (fgets(line, sizeof line, pipe) != nullptr)
    if (std::sscanf(line, "actors %d ns %lf", &actors, &ns) == 2) out[actors] = ns;
  if (pclose(pipe) != 0) out.clear();
  return out;
}

int run(const std::string& self, const std::string& json) {
  KernelTable none({});
  std::vector<std::unique_ptr<Chain>> chains;
  for (int size : sizes) chains.push_back(std::make_unique<Chain>(size, none));
  for (int round = 0; round < rounds; ++round)
    for (auto& chain : chains) chain->ns.push_back(chain->time());
  const auto peer = tbb_acts(self);

  std::printf("%-10s %10s %10s %10s %12s\n", "actors", "least", "median", "most", "oneTBB");
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const auto [least, most] = std::minmax_element(chains[i]->ns.begin(), chains[i]->ns.end());
    std::printf("%-10d %10.1f %10.1f %10.1f ", sizes[i], *least, median(chains[i]->ns), *most);
    auto at = peer.find(sizes[i]);
    at == peer.end() ? std::printf("%12s\n", "-") : std::printf("%12.1f\n", at->second);
  }
  if (peer.empty()) std::printf("oneTBB is not installed (./dev deps --peers): not compared\n");
  double small = 1e9, large = 0;  // up to 1,000 actors
  for (std::size_t i = 0; i + 1 < chains.size(); ++i)
    small = std::min(small, median(chains[i]->ns)), large = std::max(large, median(chains[i]->ns));
  const double most = median(chains.back()->ns), worst = std::max(large / small / 1.2, most / 100);
  std::printf(
      "10 to 1,000 actors: %.1f to %.1f ns an act, a spread of %.1f %% (target 20); 10,000: %.1f (target 100)\n", small,
      large, 100 * (large / small - 1), most);
  std::printf("engine: worst ratio %.3f (target 1.000)\n", worst);
  std::string text = cat("{\"name\": \"engine\", \"worst\": ", worst, ", \"target\": 1.0, \"rows\": [");
  for (std::size_t i = 0; i < chains.size(); ++i)
    text += cat(i ? ", " : "", "{\"actors\": ", sizes[i], ", \"ns\": ", median(chains[i]->ns), "}");
  write_json(json, text + "]}");
  return worst <= 1.0 ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int count, char** words) { return karez::bench::run(words[0], karez::bench::json_option(count, words)); }
