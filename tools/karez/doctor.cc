// karez doctor: reports the hosts of a job, whether each pair of its ranks can communicate, and the cost of their
// links.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>

#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/comm/rendezvous.h"
#include "karez/device/cpu_budget.h"
#include "karez/page/table.h"
#include "tools/karez/commands.h"
#include "tools/karez/doctor_facts.h"
#include "tools/karez/doctor_links.h"
#include "tools/karez/files.h"
#include "tools/karez/measure_kernels.h"
#include "tools/karez/measure_rates.h"
#include "tools/karez/run_job.h"
#include "tools/karez/run_options.h"

namespace karez::tools {
namespace {

constexpr double link_seconds =
    3;  // for all pairs, twice as long if some are broken; once for each class of links on one host

struct Options {
  std::int64_t ranks = 2;
  std::string costs;
  bool kernels = false;
  RemoteOptions remote;
};

// The results of all ranks, on rank 0.
struct Findings {
  std::vector<Facts> ranks;
  std::vector<CostTable> rates;  // of each rank; their links are not measured
  std::vector<PairResult> pairs;
  std::size_t left_out = 0;  // pairs that were not measured
};

void collect_facts(StoreClient& store, const JobLaunch& launch, Findings& out) {
  store.set(cat("facts/", launch.rank), print(facts_of_this_process()));
  for (int rank = 0; rank < launch.ranks; ++rank) out.ranks.push_back(parse_facts(store.wait(cat("facts/", rank))));
  share_cores(out.ranks);
  store.barrier("rates", launch.ranks);  // all measure at once, as they will compute
  store.set(cat("rates/", launch.rank), measure_rates(out.ranks[static_cast<std::size_t>(launch.rank)].cores).print());
  for (int rank = 0; rank < launch.ranks; ++rank)
    out.rates.push_back(CostTable::parse(store.wait(cat("rates/", rank))));
}

// Measures the links in the n-th rendezvous of this process: chosen by locality, or all of one class.
void collect_links(Reactor& reactor, const JobLaunch& launch, int number, std::optional<LinkClass> force,
                   Findings& out) {
  Rendezvous rendezvous(reactor, launch, number, Seconds(20));
  if (number == 0) collect_facts(rendezvous.store(), launch, out);
  PeersOptions options{launch.rank, launch.ranks, rendezvous.interface()};
  options.force = force;
  options.timeout = Seconds(4);
  Peers peers(reactor, rendezvous.store(), rendezvous.token(), options);
  const auto pairs = pairs_of(launch.ranks);
  auto found = measure_pairs(rendezvous.store(), peers, pairs, launch.one_host ? link_seconds / 2 : link_seconds);
  out.left_out += pairs.size() - found.size();
  out.pairs.insert(out.pairs.end(), found.begin(), found.end());
  rendezvous.store().barrier("over", launch.ranks);
}

// --- the report of rank 0

std::string of_rank(const Findings& found, int rank) {
  return cat("rank ", rank, " (", found.ranks[static_cast<std::size_t>(rank)].process, ")");
}

void print_hosts(const Findings& found) {
  std::map<std::string, std::vector<std::size_t>> hosts;  // ranks of each
  for (std::size_t rank = 0; rank < found.ranks.size(); ++rank) hosts[found.ranks[rank].host].push_back(rank);
  std::printf("%zu ranks on %zu %s\n", found.ranks.size(), hosts.size(), hosts.size() == 1 ? "host" : "hosts");
  for (const auto& [host, ranks] : hosts) {
    const Facts& first = found.ranks[ranks.front()];
    std::printf("  %s: %s, %s, ports %s for links\n", first.process.substr(0, first.process.find(',')).c_str(),
                first.processor.c_str(), bytes_text(static_cast<std::int64_t>(first.memory)).c_str(),
                first.ports.c_str());
  }
  std::vector<std::vector<std::string>> rows{{"rank", "process", "cores", "matmul GF/s", "conv GF/s", "memory GB/s"}};
  for (std::size_t rank = 0; rank < found.ranks.size(); ++rank) {
    const Facts& facts = found.ranks[rank];
    const CostTable& rates = found.rates[rank];
    rows.push_back({std::to_string(rank), facts.process, std::to_string(facts.cores),
                    fixed(rates.matmul_flops * 1e-9, 1), fixed(rates.conv_flops * 1e-9, 1),
                    fixed(rates.memory_bytes * 1e-9, 1)});
  }
  std::printf("devices: cpu, a team of all cores of each rank, all measured at once\n%s", table(rows).c_str());
}

void print_links(const Findings& found) {
  std::printf(
      "links: alpha is the latency of 64 bytes, both ends asleep; beta is the time per byte, both directions at "
      "once\n");
  std::vector<std::vector<std::string>> rows{{"link", "pairs", "alpha us", "beta ns", "GB/s", "slowest pair"}};
  for (const auto& [name, cost] : class_costs(found.pairs)) {
    std::size_t count = 0;
    const PairResult* slowest = nullptr;
    for (const PairResult& pair : found.pairs) {
      if (pair.link != name || !pair.broken.empty()) continue;
      ++count;
      if (slowest == nullptr || pair.measure.cost.beta > slowest->measure.cost.beta) slowest = &pair;
    }
    rows.push_back(
        {name, std::to_string(count), microseconds(cost.alpha), fixed(cost.beta * 1e9, 3), fixed(1e-9 / cost.beta, 2),
         cat(slowest->lower, " and ", slowest->higher, ", ", fixed(1e-9 / slowest->measure.cost.beta, 2), " GB/s")});
  }
  std::printf("%s", table(rows).c_str());
  if (found.left_out > 0) std::printf("  %zu pairs were not measured for lack of time\n", found.left_out);
}

void print_clocks(const Findings& found) {
  const PairResult* worst = nullptr;
  for (const PairResult& pair : found.pairs) {
    const bool same_host = found.ranks[static_cast<std::size_t>(pair.lower)].host ==
                           found.ranks[static_cast<std::size_t>(pair.higher)].host;
    if (pair.broken.empty() && !same_host &&
        (worst == nullptr || std::abs(pair.measure.clock) > std::abs(worst->measure.clock)))
      worst = &pair;
  }
  if (worst == nullptr) return std::printf("clocks: one host\n"), void();
  std::printf("clocks: at most %.1f us apart, +- %.1f us (ranks %d and %d)\n", std::abs(worst->measure.clock) * 1e6,
              worst->measure.clock_error * 1e6, worst->lower, worst->higher);
}

CostTable costs_of(const Findings& found) {
  CostTable out = found.rates[0];
  for (const CostTable& rates : found.rates) {  // all wait for the slowest rank
    out.matmul_flops = std::min(out.matmul_flops, rates.matmul_flops);
    out.conv_flops = std::min(out.conv_flops, rates.conv_flops);
    out.memory_bytes = std::min(out.memory_bytes, rates.memory_bytes);
  }
  out.axis_links = class_costs(found.pairs);
  const bool several = std::any_of(found.ranks.begin(), found.ranks.end(),
                                   [&](const Facts& facts) { return facts.host != found.ranks[0].host; });
  for (const auto& [name, cost] : out.axis_links)
    if (name == (several ? "tcp" : "shm") || out.axis_links.size() == 1) out.link = cost;
  return out;
}

// The cost table that the file already has.
CostTable known_costs(const std::string& file) {
  if (!std::filesystem::is_regular_file(file)) return {};
  const std::string text = read_text(file);
  try {
    return CostTable::parse(text);
  } catch (const Error& error) { throw Error(ErrorKind::data, cat(file, ": ", error.what())); }
}

int report(const Findings& found, const std::string& costs) {
  print_hosts(found);
  print_links(found);
  print_clocks(found);
  const auto differ = differences(found.ranks);
  std::printf("versions: %s\n", differ.empty() ? cat("all the same: ", found.ranks[0].build).c_str() : "");
  for (const std::string& line : differ) std::printf("  %s\n", line.c_str());
  int broken = 0;
  for (const PairResult& pair : found.pairs) {
    if (pair.broken.empty()) continue;
    ++broken;
    std::printf("BROKEN: %s and %s%s: %s\n", of_rank(found, pair.lower).c_str(), of_rank(found, pair.higher).c_str(),
                pair.link.empty() ? "" : cat(" by ", pair.link).c_str(), pair.broken.c_str());
  }
  if (!costs.empty()) {
    require(ErrorKind::peer, !class_costs(found.pairs).empty(),
            "no pair of ranks could communicate, so there are no costs to write");
    CostTable table = costs_of(found);
    const CostTable before = known_costs(costs);
    if (!before.sets.empty()) {  // keeps the costs of kernels and of links within a process
      table.sets = before.sets, table.origin = before.origin, table.call = before.call,
      table.memory_bytes = before.memory_bytes;
      for (const auto& link : before.axis_links)
        if (link.first == "local") table.axis_links.insert(table.axis_links.begin(), link);
    }
    write_text(costs, cat("# Measured by karez doctor: ", found.ranks.size(),
                          " ranks. The costs of a link class (shm, tcp) apply to mesh axes with such links.\n",
                          table.print()));
    std::printf("costs: written to %s\n", costs.c_str());
  }
  return broken > 0 ? exit_code(ErrorKind::peer) : 0;
}

int run_as_rank(const JobLaunch& launch, const Options& options) {
  Findings found;
  Reactor reactor;
  collect_links(reactor, launch, 0, std::nullopt, found);
  if (launch.one_host) collect_links(reactor, launch, 1, LinkClass::tcp, found);
  return launch.rank == 0 ? report(found, options.costs) : 0;
}

// --- kernels

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &date);
  return text;
}

// Rates are those of f32; integers and f64 are not measured.
void print_rates(const CostTable& costs) {
  std::printf("%s\n", costs.origin.c_str());
  std::vector<std::vector<std::string>> rows{{"rate"}};
  for (const RateSet& set : costs.sets) rows[0].push_back(cat("team of ", set.team));
  rows[0].emplace_back("unit");
  for (std::size_t rate = 0; rate < rate_count; ++rate) {
    rows.push_back({std::string(rate_name(rate))});
    for (const RateSet& set : costs.sets) rows.back().push_back(fixed(set.rates[rate] * 1e-9, 2));
    rows.back().emplace_back(rate < find_rate("pointwise.l1") ? "GF/s" : rate == functions_rate ? "G/s" : "GB/s");
  }
  const LinkCost& local = costs.of_axis("local");
  std::printf(
      "%sa call: %s us; a link within a process: alpha %s us, beta %.3f ns; copies and sums of received data at %.1f "
      "GB/s\n",
      table(rows).c_str(), microseconds(costs.call).c_str(), microseconds(local.alpha).c_str(), local.beta * 1e9,
      costs.memory_bytes * 1e-9);
}

// Measures in this process alone. The file keeps its costs of other links and other instruction sets.
int run_kernels(const std::string& file) {
  const CostTable before = file.empty() ? CostTable() : known_costs(file);
  CostTable costs = measure_costs(device::cpu_budget().cores, today());
  print_rates(costs);
  if (file.empty()) return 0;
  for (const RateSet& set : before.sets)
    if (set.isa != costs.sets[0].isa) costs.sets.push_back(set);
  costs.link = before.link;
  for (const auto& link : before.axis_links)
    if (link.first != "local") costs.axis_links.push_back(link);
  write_text(file, cat("# Measured by karez doctor --kernels.\n", costs.print()));
  std::printf("costs: written to %s\n", file.c_str());
  return 0;
}

int run(const Options& options) {
  if (options.kernels) return run_kernels(options.costs);
  const JobLaunch launch = launch_from(process_environment());
  if (launch.ranks > 1) return run_as_rank(launch, options);
  require(options.ranks >= 2, "--ranks ", options.ranks, ": a link needs two ranks");
  RunOptions job = job_options(options.remote, options.ranks);
  job.prefix = false;
  job.words = {own_path(), "doctor"};
  if (!options.costs.empty())
    job.words.insert(job.words.end(), {"--costs", std::filesystem::absolute(options.costs).string()});
  return run_job(job);
}

}  // namespace

Command doctor_command() {
  auto options = std::make_shared<Options>();
  Command out{
      "doctor",
      "Checks the hosts of a job and every pair of its ranks, within half a minute, on busy hosts a minute: cores, "
      "rates, links, clocks, versions.\n"
      "Without a launcher it starts ranks as karez run does; under karez run, mpirun or another launcher it checks the "
      "ranks of that launcher.\n"
      "Exit code 75: two ranks cannot communicate; they are named.",
      {{"-n,--ranks", "number of processes to start", &options->ranks},
       {"--costs",
        "file for a cost table that WorldOptions::cost_file takes; entries of the file that are not measured now stay",
        &options->costs},
       {"--kernels", "measure this processor's kernels and links within a process instead, by kind of work and size",
        &options->kernels}},
      [options] { return run(*options); },
      {}};
  add_remote_arguments(out, options->remote);
  return out;
}

}  // namespace karez::tools
