// Is the engine's cost of an act independent of the number of actors?
//
//   bench_engine [--json FILE]
//
// Measures chains of 10 to 10,000 actors with empty bodies on one worker, with two slots between neighbours. Every
// launch has about a million acts; each sends one `filled` message and one `returned` message. The rounds alternate
// between the sizes. Targets: a spread of at most 20 % from 10 to 1,000 actors, and at most 100 ns per act with 10,000
// actors. If oneTBB is installed, bench_engine_tbb measures the flow graph of oneTBB with the same chains.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/report.h"
#include "karez/plan/test_plan_builder.h"
#include "karez/runtime/session.h"

namespace karez::bench {
namespace {

constexpr int sizes[] = {10, 100, 1000, 10'000};
constexpr int acts = 1'000'000, rounds = 9;

Plan make_chain(int actors) {
  PlanBuilder builder;
  const int pieces = acts / actors;
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

struct Chain {
  Session session;
  int plan;
  std::vector<double> ns;  // ns per act, by round

  Chain(int actors, const KernelTable& kernels)
      : session({.workers = 1}, kernels),
        plan(session.load(make_chain(actors))) {
    time();
  }
  double time() {
    const auto begin = std::chrono::steady_clock::now();
    session.launch(plan).wait();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / acts;
  }
};

// Returns the ns per act of the oneTBB program, by number of actors. The program is separate, because oneTBB is
// optional.
std::map<int, double> tbb_act_times(const std::string& program_path) {
  std::map<int, double> out;
  auto program = std::filesystem::path(program_path).parent_path() / "bench_engine_tbb";
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

int run(const std::string& program_path, const std::string& json) {
  const KernelTable no_kernels({});
  std::vector<std::unique_ptr<Chain>> chains;
  for (int size : sizes) chains.push_back(std::make_unique<Chain>(size, no_kernels));
  for (int round = 0; round < rounds; ++round)
    for (auto& chain : chains) chain->ns.push_back(chain->time());
  const auto tbb = tbb_act_times(program_path);

  std::printf("%-10s %10s %10s %10s %12s\n", "actors", "min", "median", "max", "oneTBB");
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const auto [min, max] = std::minmax_element(chains[i]->ns.begin(), chains[i]->ns.end());
    std::printf("%-10d %10.1f %10.1f %10.1f ", sizes[i], *min, median(chains[i]->ns), *max);
    const auto row = tbb.find(sizes[i]);
    row == tbb.end() ? std::printf("%12s\n", "-") : std::printf("%12.1f\n", row->second);
  }
  if (tbb.empty()) std::printf("oneTBB is not installed (./dev deps --peers): not compared\n");
  double min_ns = 1e9, max_ns = 0;  // up to 1,000 actors
  for (std::size_t i = 0; i + 1 < chains.size(); ++i)
    min_ns = std::min(min_ns, median(chains[i]->ns)), max_ns = std::max(max_ns, median(chains[i]->ns));
  const double longest_chain_ns = median(chains.back()->ns),
               max_ratio = std::max(max_ns / min_ns / 1.2, longest_chain_ns / 100);
  std::printf(
      "10 to 1,000 actors: %.1f to %.1f ns an act, a spread of %.1f %% (target 20); 10,000: %.1f (target 100)\n",
      min_ns, max_ns, 100 * (max_ns / min_ns - 1), longest_chain_ns);
  std::printf("engine: worst ratio %.3f (target 1.000)\n", max_ratio);
  std::string text = cat("{\"name\": \"engine\", \"worst\": ", max_ratio, ", \"target\": 1.0, \"rows\": [");
  for (std::size_t i = 0; i < chains.size(); ++i)
    text += cat(i ? ", " : "", "{\"actors\": ", sizes[i], ", \"ns\": ", median(chains[i]->ns), "}");
  write_json(json, text + "]}");
  return max_ratio <= 1.0 ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int count, char** words) { return karez::bench::run(words[0], karez::bench::json_option(count, words)); }
