// karez simulate: runs a plan in virtual time, with predicted durations.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "karez/base/text.h"
#include "karez/plan/acts.h"
#include "karez/report/predictor.h"
#include "karez/report/sections.h"
#include "karez/report/table.h"
#include "karez/runtime/simulator.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"

namespace karez::tools {
namespace {

struct Options {
  std::string file, costs;
  std::int64_t seed = 1, launches = 1, workers = 0, rows = 10;
  double delay = 0;  // microseconds
};

// Returns the ids sorted by busy time, the longest first; ids with equal times are in ascending order.
template <class Id> std::vector<Id> largest_first(const ById<Id, double>& busy) {
  std::vector<Id> order;
  for (Id id : busy.ids()) order.push_back(id);
  std::stable_sort(order.begin(), order.end(), [&](Id a, Id b) { return busy[a] > busy[b]; });
  return order;
}

std::string actors_text(const Plan& plan, const Simulation& run, const ById<ActorId, double>& busy, std::int64_t rows) {
  ById<ActorId, int> acts(plan.actors.size());
  ById<ActorId, double> total_seconds(plan.actors.size());  // also of acts that run ahead for the next launch
  for (const SimulatedAct& act : run.acts) ++acts[act.actor], total_seconds[act.actor] += act.end - act.begin;
  std::vector<std::vector<std::string>> out = {{"acts", "us an act", "of the time", "device", "actor", "at"}};
  for (ActorId a : largest_first(busy)) {
    if (static_cast<std::int64_t>(out.size()) > rows) break;
    const Actor& actor = plan.actor(a);
    out.push_back({cat(acts[a]), microseconds(acts[a] == 0 ? 0 : total_seconds[a] / acts[a]),
                   percent(run.makespan > 0 ? busy[a] / run.makespan : 0),
                   device_text(plan, plan.stream(actor.stream).device), cat("a", a, " ", actor.name), actor.where});
  }
  std::string title = out.size() <= plan.actors.size()
                          ? cat("busiest ", out.size() - 1, " of ", plan.actors.size(), " actors\n")
                          : "actors\n";
  return title + table(out);
}

// Lists the busy time of each stream. Collectives of one stream may overlap; the overlap counts once.
std::string streams_text(const Plan& plan, const Simulation& run) {
  std::vector<SimulatedAct> acts = run.acts;
  std::stable_sort(acts.begin(), acts.end(),
                   [](const SimulatedAct& a, const SimulatedAct& b) { return a.begin < b.begin; });
  ById<StreamId, double> busy(plan.streams.size(), 0), busy_until(plan.streams.size(), 0);
  for (const SimulatedAct& act : acts) {
    const StreamId s = plan.actor(act.actor).stream;
    const double end = std::min(act.end, run.makespan);
    busy[s] += std::max(0.0, end - std::max(act.begin, busy_until[s]));
    busy_until[s] = std::max(busy_until[s], end);
  }
  std::vector<std::vector<std::string>> out;
  for (StreamId s : largest_first(busy))
    out.push_back({percent(run.makespan > 0 ? busy[s] / run.makespan : 0), device_text(plan, plan.stream(s).device),
                   cat(plan.stream(s).kind, out.empty() ? "   <- the busiest stream" : "")});
  return "streams, busy for\n" + table(out);
}

// Lists the busy time of each worker, without collectives, which do not occupy a worker.
std::string workers_text(const Plan& plan, const Simulation& run, const ById<ActorId, double>& busy) {
  std::vector<double> worker_busy(run.events.size());
  for (ActorId a : busy.ids())
    if (!plan.actor(a).collective)
      worker_busy[static_cast<std::size_t>(plan.stream(plan.actor(a).stream).worker) % worker_busy.size()] += busy[a];
  std::vector<std::vector<std::string>> out;
  for (std::size_t w = 0; w < worker_busy.size(); ++w)
    out.push_back({percent(run.makespan > 0 ? worker_busy[w] / run.makespan : 0), cat("worker ", w)});
  return "workers (threads), busy for\n" + table(out);
}

std::string memory_text(const Plan& plan, const Simulation& run) {
  std::vector<std::vector<std::string>> out;
  const auto peak = peak_bytes(plan, run), planned = planned_bytes(plan);
  for (DeviceId d : plan.devices.ids())
    out.push_back(
        {device_text(plan, d), bytes_text(peak[d]), cat("of ", bytes_text(planned[d]), " in all its blocks")});
  return "peak bytes in use by device: slots of registers, including variables\n" + table(out);
}

int run(const Options& options) {
  require(options.seed >= 0, "--seed must be at least 0, got ", options.seed);
  require(options.launches >= 1 && options.launches <= 100'000, "--launches must be 1 to 100000, got ",
          options.launches);
  require(options.workers >= 0 && options.workers <= 100'000, "--workers must be 0 to 100000, got ", options.workers);
  require(options.rows >= 0, "--rows must be at least 0, got ", options.rows);
  require(std::isfinite(options.delay) && options.delay >= 0, "--delay must be a finite number of at least 0, got ",
          options.delay);
  const Plan plan = verified_plan(options.file);
  const CostTable costs = costs_of(options.costs, plan);
  SimulationOptions simulation;
  simulation.seed = static_cast<std::uint64_t>(options.seed);
  simulation.launches = static_cast<int>(options.launches);
  simulation.workers = static_cast<int>(options.workers);
  simulation.delay = options.delay * 1e-6;
  const Prediction launch = [&] {
    try {
      return predict(plan, costs, simulation);
    } catch (const Error& error) { throw Error(ErrorKind::hang, cat(options.file, ": ", error.what())); }
  }();
  const Simulation& result = launch.run;

  ById<ActorId, double> busy(plan.actors.size());
  for (const SimulatedAct& act : result.acts)
    busy[act.actor] += std::max(0.0, std::min(act.end, result.makespan) - act.begin);
  std::printf("plan '%s': %s us a launch, predicted%s\n", plan.name.c_str(), microseconds(launch.seconds).c_str(),
              std::string(default_costs_warning(costs)).c_str());
  std::printf("launches in sequence: %lld, seed %lld, delay up to %s us; %lld messages a launch\ncosts: %s\n",
              static_cast<long long>(options.launches), static_cast<long long>(options.seed),
              number(options.delay).c_str(), static_cast<long long>(messages_per_launch(plan)),
              origin_text(costs).c_str());
  std::printf("%s%s%s%s", actors_text(plan, result, busy, options.rows).c_str(), streams_text(plan, result).c_str(),
              workers_text(plan, result, busy).c_str(), memory_text(plan, result).c_str());
  return 0;
}

}  // namespace

Command simulate_command() {
  auto o = std::make_shared<Options>();
  return {"simulate",
          cat("Runs a plan in virtual time by the rules of the engine, and prints how the time is spent.\n",
              prediction_method),
          {{"FILE", "a plan's text", &o->file},
           {"--costs", "file of a cost table; otherwise the plan's own table", &o->costs},
           {"--seed", "seed of the delays", &o->seed},
           {"--delay", "upper limit in us of the random delay of each message between workers", &o->delay},
           {"--launches", "number of launches, in sequence", &o->launches},
           {"--workers", "threads; 0: the number that the plan names", &o->workers},
           {"--rows", "maximum number of actors to print", &o->rows}},
          [o] { return run(*o); },
          {}};
}

}  // namespace karez::tools
