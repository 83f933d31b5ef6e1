// karez doctor: reports the hosts of a job, whether each pair of its ranks can communicate, and the cost of their
// links.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>

#include "karez/api/costs/saved_costs.h"
#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/comm/rendezvous/rendezvous.h"
#include "karez/device/cpu_budget.h"
#include "karez/device/processor.h"
#include "karez/report/table.h"
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

// The planned time for all pairs, in seconds; on one host, each of the two link classes gets half of it.
constexpr double link_seconds = 3;

struct Options {
  std::int64_t ranks = 2;
  std::string costs;
  bool kernels = false, save = false;
  RemoteOptions remote;
};

// The results of all ranks. Only rank 0 has those of the pairs.
struct Findings {
  std::vector<Facts> ranks;
  std::vector<CostTable> rates;  // one per rank; their link costs are not measured
  std::vector<PairResult> pairs;
  std::size_t left_out = 0;  // pairs that were not measured
};

void collect_facts(StoreClient& store, const JobLaunch& launch, Findings& out) {
  store.set(cat("facts/", launch.rank), print(facts_of_this_process()));
  for (int rank = 0; rank < launch.ranks; ++rank) out.ranks.push_back(parse_facts(store.wait(cat("facts/", rank))));
  share_cores(out.ranks);
  store.barrier("rates", launch.ranks);  // the ranks measure at the same time, as they will compute at the same time
  store.set(cat("rates/", launch.rank), measure_rates(out.ranks[static_cast<std::size_t>(launch.rank)].cores).print());
  for (int rank = 0; rank < launch.ranks; ++rank)
    out.rates.push_back(CostTable::parse(store.wait(cat("rates/", rank))));
}

// Measures the links of all pairs. `number` is the number of this rendezvous within the process, from 0; the first one
// collects the facts too. All links are of the class `force` if it is given; otherwise each pair uses the class that
// fits its locality.
void collect_links(Reactor& reactor, const JobLaunch& launch, int number, std::optional<LinkClass> force,
                   Findings& out) {
  Rendezvous rendezvous(reactor, launch, number, Seconds(20));
  if (number == 0) collect_facts(rendezvous.store(), launch, out);
  PeersOptions options{launch.rank, launch.ranks, rendezvous.interface()};
  options.force = force;
  options.timeout = Seconds(4);
  Peers peers(reactor, rendezvous.store(), rendezvous.token(), options);
  const auto pairs = pairs_of(launch.ranks);
  auto findings = measure_pairs(rendezvous.store(), peers, pairs, launch.one_host ? link_seconds / 2 : link_seconds);
  out.left_out += pairs.size() - findings.size();
  out.pairs.insert(out.pairs.end(), findings.begin(), findings.end());
  rendezvous.store().barrier("over", launch.ranks);
}

// --- the report of rank 0

std::string rank_text(const Findings& findings, int rank) {
  return cat("rank ", rank, " (", findings.ranks[static_cast<std::size_t>(rank)].process, ")");
}

void print_hosts(const Findings& findings) {
  std::map<std::string, std::vector<std::size_t>> hosts;  // ranks of each host
  for (std::size_t rank = 0; rank < findings.ranks.size(); ++rank) hosts[findings.ranks[rank].host].push_back(rank);
  std::printf("%zu ranks on %zu %s\n", findings.ranks.size(), hosts.size(), hosts.size() == 1 ? "host" : "hosts");
  for (const auto& [host, ranks] : hosts) {
    const Facts& first = findings.ranks[ranks.front()];
    std::printf("  %s: %s, %s, ports %s for links\n", first.process.substr(0, first.process.find(',')).c_str(),
                first.processor.c_str(), bytes_text(static_cast<std::int64_t>(first.memory)).c_str(),
                first.ports.c_str());
  }
  std::vector<std::vector<std::string>> rows{{"rank", "process", "cores", "matmul GF/s", "conv GF/s", "memory GB/s"}};
  for (std::size_t rank = 0; rank < findings.ranks.size(); ++rank) {
    const Facts& facts = findings.ranks[rank];
    const CostTable& rates = findings.rates[rank];
    rows.push_back({std::to_string(rank), facts.process, std::to_string(facts.cores),
                    fixed(rates.matmul_flops * 1e-9, 1), fixed(rates.conv_flops * 1e-9, 1),
                    fixed(rates.memory_bytes * 1e-9, 1)});
  }
  std::printf("devices: cpu, one team of all cores per rank; all ranks measured at the same time\n%s",
              table(rows).c_str());
}

void print_links(const Findings& findings) {
  std::printf(
      "links: alpha is the latency of 64 bytes when both ends sleep; beta is the time per byte when both ends send\n");
  std::vector<std::vector<std::string>> rows{{"link", "pairs", "alpha us", "beta ns", "GB/s", "slowest pair"}};
  for (const auto& [name, cost] : class_costs(findings.pairs)) {
    std::size_t count = 0;
    const PairResult* slowest = nullptr;
    for (const PairResult& pair : findings.pairs) {
      if (pair.link != name || !pair.broken.empty()) continue;
      ++count;
      if (slowest == nullptr || pair.measure.cost.beta > slowest->measure.cost.beta) slowest = &pair;
    }
    rows.push_back(
        {name, std::to_string(count), microseconds(cost.alpha), fixed(cost.beta * 1e9, 3), fixed(1e-9 / cost.beta, 2),
         cat(slowest->lower, " and ", slowest->higher, ", ", fixed(1e-9 / slowest->measure.cost.beta, 2), " GB/s")});
  }
  std::printf("%s", table(rows).c_str());
  if (findings.left_out > 0) std::printf("  %zu pairs were not measured for lack of time\n", findings.left_out);
}

void print_clocks(const Findings& findings) {
  const PairResult* widest = nullptr;
  for (const PairResult& pair : findings.pairs) {
    const bool same_host = findings.ranks[static_cast<std::size_t>(pair.lower)].host ==
                           findings.ranks[static_cast<std::size_t>(pair.higher)].host;
    if (pair.broken.empty() && !same_host &&
        (widest == nullptr || std::abs(pair.measure.clock) > std::abs(widest->measure.clock)))
      widest = &pair;
  }
  if (widest == nullptr) return std::printf("clocks: no link between different hosts\n"), void();
  std::printf("clocks: at most %.1f us apart, +- %.1f us (ranks %d and %d)\n", std::abs(widest->measure.clock) * 1e6,
              widest->measure.clock_error * 1e6, widest->lower, widest->higher);
}

CostTable costs_of(const Findings& findings) {
  CostTable out = findings.rates[0];
  for (const CostTable& rates : findings.rates) {  // all ranks wait for the slowest one
    out.matmul_flops = std::min(out.matmul_flops, rates.matmul_flops);
    out.conv_flops = std::min(out.conv_flops, rates.conv_flops);
    out.memory_bytes = std::min(out.memory_bytes, rates.memory_bytes);
  }
  out.axis_links = class_costs(findings.pairs);
  const bool has_several_hosts = std::any_of(findings.ranks.begin(), findings.ranks.end(),
                                             [&](const Facts& facts) { return facts.host != findings.ranks[0].host; });
  for (const auto& [name, cost] : out.axis_links)
    if (name == (has_several_hosts ? "tcp" : "shm") || out.axis_links.size() == 1) out.link = cost;
  return out;
}

// Returns the cost table in the file, or an empty one if the file does not exist.
CostTable read_existing_costs(const std::string& file) {
  if (!std::filesystem::is_regular_file(file)) return {};
  const std::string text = read_text(file);
  try {
    return CostTable::parse(text);
  } catch (const Error& error) { throw Error(ErrorKind::data, cat(file, ": ", error.what())); }
}

int report(const Findings& findings, const std::string& costs) {
  print_hosts(findings);
  print_links(findings);
  print_clocks(findings);
  const auto difference_lines = differences(findings.ranks);
  std::printf("versions: %s\n", difference_lines.empty() ? cat("all the same: ", findings.ranks[0].build).c_str() : "");
  for (const std::string& line : difference_lines) std::printf("  %s\n", line.c_str());
  int broken_pairs = 0;
  for (const PairResult& pair : findings.pairs) {
    if (pair.broken.empty()) continue;
    ++broken_pairs;
    std::printf("BROKEN: %s and %s%s: %s\n", rank_text(findings, pair.lower).c_str(),
                rank_text(findings, pair.higher).c_str(), pair.link.empty() ? "" : cat(" by ", pair.link).c_str(),
                pair.broken.c_str());
  }
  if (!costs.empty()) {
    require(ErrorKind::peer, !class_costs(findings.pairs).empty(),
            "no pair of ranks could communicate, so there are no costs to write");
    CostTable table = costs_of(findings);
    const CostTable existing = read_existing_costs(costs);
    if (!existing.sets.empty()) {  // keep the costs of kernels and of links within a process
      table.sets = existing.sets, table.origin = existing.origin, table.call = existing.call,
      table.team_call = existing.team_call, table.memory_bytes = existing.memory_bytes;
      for (const auto& link : existing.axis_links)
        if (link.first == "local") table.axis_links.insert(table.axis_links.begin(), link);
    }
    write_text(costs, cat("# Measured by karez doctor: ", findings.ranks.size(),
                          " ranks. The costs of a link class (shm, tcp) apply to mesh axes with such links.\n",
                          table.print()));
    std::printf("costs: written to %s\n", costs.c_str());
  }
  return broken_pairs > 0 ? exit_code(ErrorKind::peer) : 0;
}

int run_as_rank(const JobLaunch& launch, const Options& options) {
  Findings findings;
  Reactor reactor;
  collect_links(reactor, launch, 0, std::nullopt, findings);
  if (launch.one_host) collect_links(reactor, launch, 1, LinkClass::tcp, findings);
  return launch.rank == 0 ? report(findings, options.costs) : 0;
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

// Prints the rates. They were measured with f32; integers and f64 are not measured.
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
      "%sa call: %s us, on a team %s us; a link within a process: alpha %s us, beta %.3f ns; copies and sums of "
      "received data at %.1f "
      "GB/s\n",
      table(rows).c_str(), microseconds(costs.call).c_str(), microseconds(costs.call + costs.team_call).c_str(),
      microseconds(local.alpha).c_str(), local.beta * 1e9, costs.memory_bytes * 1e-9);
}

// Adds what the existing table has about other instruction sets and other links.
void keep_other_costs(CostTable& costs, const CostTable& existing) {
  for (const RateSet& set : existing.sets)
    if (set.isa != costs.sets[0].isa) costs.sets.push_back(set);
  costs.link = existing.link;
  for (const auto& link : existing.axis_links)
    if (link.first != "local") costs.axis_links.push_back(link);
}

// Measures the kernels in this process, and writes the table to `file` and to the file of saved costs, if asked.
int run_kernels(const std::string& file, bool save) {
  const device::Processor processor = device::processor();
  const int cores = device::cpu_budget().cores;
  const std::string saved_path = save ? saved_costs_path(processor) : "";
  require(ErrorKind::data, !save || !saved_path.empty(),
          "--save needs a folder: neither XDG_DATA_HOME nor HOME is an absolute path; --costs FILE names a file");
  const CostTable existing = file.empty() ? CostTable() : read_existing_costs(file);
  const CostTable measured = measure_costs(cores, today());
  print_rates(measured);
  if (measured.origin.ends_with(contention_note))
    std::printf(
        "costs: other programs used the cores, so the figures are too low; measure again when they have ended\n");
  if (!file.empty()) {
    CostTable costs = measured;
    keep_other_costs(costs, existing);
    write_text(file, cat("# Measured by karez doctor --kernels.\n", costs.print()));
    std::printf("costs: written to %s\n", file.c_str());
  }
  if (!save) return 0;
  CostTable costs = measured;
  const SavedCosts saved = read_saved_costs(saved_path, processor, 0);
  if (saved.table) keep_other_costs(costs, *saved.table);
  if (!saved.defect.empty())
    std::printf("costs: %s is replaced, because it %s\n", saved_path.c_str(), saved.defect.c_str());
  save_costs(saved_path, costs, processor);
  std::printf(
      "costs: saved in %s. Later programs of this user on this processor plan with these costs. So layouts and the "
      "number of threads of a call may change, and with them the last digits of results; KAREZ_COSTS=default plans "
      "without them.\n",
      saved_path.c_str());
  return 0;
}

int run(const Options& options) {
  if (options.kernels) return run_kernels(options.costs, options.save);
  require(!options.save, "--save saves the costs of kernels, so it requires --kernels");
  const JobLaunch launch = launch_from(process_environment());
  if (launch.ranks > 1) return run_as_rank(launch, options);
  require(options.ranks >= 2, "-n must be at least 2, because a link joins two ranks; got ", options.ranks);
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
      "Checks the hosts of a job and every pair of its ranks: cores, rates, links, clocks and versions. Takes up to "
      "half a minute, or a minute on busy hosts.\n"
      "Without a launcher it starts ranks as karez run does; under karez run, mpirun or another launcher it checks the "
      "ranks of that launcher.\n"
      "Exit code 75: two ranks cannot communicate; the report names them.",
      {{"-n,--ranks", "number of processes to start", &options->ranks},
       {"--costs",
        "file to write a cost table to, for WorldOptions::cost_file; entries of an existing file that are not measured "
        "now are kept",
        &options->costs},
       {"--kernels",
        "measure this processor's kernels, by kind of work and size, and the links within a process; check no job",
        &options->kernels},
       {"--save",
        "with --kernels: save the cost table in $XDG_DATA_HOME/karez or ~/.local/share/karez, where later programs on "
        "this processor find it; layouts, numbers of threads and last digits of results may change",
        &options->save}},
      [options] { return run(*options); },
      {}};
  add_remote_arguments(out, options->remote);
  return out;
}

}  // namespace karez::tools
