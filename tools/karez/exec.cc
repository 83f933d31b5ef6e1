// karez exec: runs a saved plan without its program and without the compiler.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

#include "karez/base/text.h"
#include "karez/plan/acts.h"
#include "karez/report/table.h"
#include "karez/report/trace_json.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"
#include "tools/karez/inputs.h"
#include "tools/karez/replay.h"

namespace karez::tools {
namespace {

struct Options {
  std::string file, trace;
  std::int64_t seed = 1, integers = 1, launches = 10, warm_up = 2, workers = 0;
  std::vector<std::string> inputs;
  bool replay = false, pin = false;
};

using Outputs = std::vector<std::pair<std::string, HostArray>>;

struct Times {
  double median = 0, min = 0, max = 0;  // seconds per launch
};
Times times_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  return {n % 2 == 1 ? seconds[n / 2] : (seconds[n / 2 - 1] + seconds[n / 2]) / 2, seconds.front(), seconds.back()};
}
std::string times_text(const Times& t) {
  return cat("median ", fixed(t.median * 1e3, 3), " ms a launch (min ", fixed(t.min * 1e3, 3), ", max ",
             fixed(t.max * 1e3, 3), ")");
}

// Returns the size of a worker's event ring, in entries, for which no launch is overwritten, at most 2^24. A launch
// writes up to two entries per act, two per message and two more.
int ring_entries(const Plan& plan, std::int64_t launches) {
  std::int64_t acts = 0;
  for (std::int64_t actor_acts : acts_per_launch(plan)) acts += actor_acts;
  return static_cast<int>(
      std::clamp<std::int64_t>((2 * acts + 2 * messages_per_launch(plan) + 2) * launches, 1024, 1 << 24));
}

std::string output_text(const std::string& name, const HostArray& array) {
  std::string values;
  with_type(array.dtype(), [&]<class T>() {
    const auto values_of_array = array.data<T>();
    values = join(values_of_array.first(std::min<std::size_t>(values_of_array.size(), 3)), ", ",
                  [](T value) { return +value; });
    if (values_of_array.size() > 3) values += ", ...";
  });
  return cat("  ", name, " ", array.type(), " = ", values, "\n");
}

struct EngineRun {
  std::vector<double> seconds;
  Outputs outputs;
  std::vector<EventLog> events;
  int workers = 0;
  std::int32_t number = 0;
};

EngineRun run_engine(const Plan& plan, const KernelTable& kernels, const Feeds& feeds,
                     const std::vector<VariableValue>& variables, const Options& options) {
  SessionOptions session_options;
  session_options.workers = static_cast<int>(options.workers);
  session_options.pin = options.pin;
  if (!options.trace.empty()) session_options.events = ring_entries(plan, options.launches + options.warm_up);
  Session session(session_options, kernels);
  EngineRun out;
  out.number = session.load(plan);
  for (const VariableValue& variable : variables)
    session.write_variable(variable.name, variable.device, variable.value.view(), variable.value);
  for (std::int64_t i = 0; i < options.warm_up + options.launches; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Launch launch = session.launch(out.number, feeds);
    launch.wait();
    if (i >= options.warm_up)
      out.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    out.outputs = launch.outputs();
  }
  out.workers = session.counters().workers;
  if (!options.trace.empty()) out.events = session.events();
  return out;
}

void save_trace(const Plan& plan, const EngineRun& engine_run, const std::string& path) {
  const auto spans = spans_of(plan, engine_run.number, engine_run.events);
  write_text(path, report::print(report::trace_of(plan, spans)));
  std::uint64_t overwritten_events = 0;
  for (const EventLog& log : engine_run.events) overwritten_events += log.overwritten;
  std::printf(
      "%zu acts in %s%s\n", spans.size(), path.c_str(),
      overwritten_events == 0
          ? ""
          : cat("; ", overwritten_events, " older entries of the workers' event rings were overwritten").c_str());
}

void run_replay(const Plan& plan, const KernelTable& kernels, const Feeds& feeds,
                const std::vector<VariableValue>& variables, const Options& options, const EngineRun& engine_run) {
  Replay replay(plan, kernels, feeds, variables);
  std::vector<double> seconds, outside_shares;
  for (std::int64_t i = 0; i < options.warm_up + options.launches; ++i) {
    const ReplayTimes times = replay.launch();
    if (i < options.warm_up) continue;
    seconds.push_back(times.seconds);
    outside_shares.push_back(1 - times.inside / times.seconds);
  }
  const Times replay_times = times_of(seconds), engine_times = times_of(engine_run.seconds);
  auto relative_text = [](double a, double b) { return cat(a < b ? "" : "+", fixed(100 * (a / b - 1), 1), " %"); };
  std::printf("replay: %zu calls in a plain loop: %s, %s %% of the time outside calls\n", replay.calls(),
              times_text(replay_times).c_str(), fixed(100 * times_of(outside_shares).median, 2).c_str());
  std::printf("  the engine relative to the loop: median %s, min %s\n",
              relative_text(engine_times.median, replay_times.median).c_str(),
              relative_text(engine_times.min, replay_times.min).c_str());
  for (std::size_t i = 0; i < replay.outputs().size(); ++i) {
    const auto& [name, array] = replay.outputs()[i];
    const HostArray& engine_output = engine_run.outputs[i].second;
    require(ErrorKind::device,
            array.type() == engine_output.type() &&
                std::memcmp(array.bytes(), engine_output.bytes(), static_cast<std::size_t>(array.view().bytes())) == 0,
            "replay: output '", name, "' of the last launch differs from the engine's");
  }
  std::printf("  the last outputs of the loop and of the engine are equal, bit for bit\n");
}

int run(const Options& options) {
  require(options.seed >= 0, "--seed must be at least 0, got ", options.seed);
  require(options.integers >= 1, "--integers must be at least 1, got ", options.integers);
  require(options.launches >= 1 && options.launches <= 1'000'000, "--launches must be 1 to 1000000, got ",
          options.launches);
  require(options.warm_up >= 0 && options.warm_up <= 1'000'000, "--warm-up must be 0 to 1000000, got ",
          options.warm_up);
  require(options.workers >= 0 && options.workers <= 4096, "--workers must be 0 to 4096, got ", options.workers);
  const Plan plan = verified_plan(options.file);
  if (options.replay) require_replayable(plan);
  const KernelTable kernels(cpu_kernels());
  const auto seed = static_cast<std::uint64_t>(options.seed);
  const Feeds feeds = feeds_of(plan, {seed, options.integers, options.inputs});
  const auto variables = variables_of(plan, seed);
  const EngineRun engine_run = run_engine(plan, kernels, feeds, variables, options);
  std::printf("plan '%s': %lld launches on %d worker%s: %s\n", plan.name.c_str(),
              static_cast<long long>(options.launches), engine_run.workers, engine_run.workers == 1 ? "" : "s",
              times_text(times_of(engine_run.seconds)).c_str());
  for (const auto& [name, array] : engine_run.outputs) std::fputs(output_text(name, array).c_str(), stdout);
  if (!options.trace.empty()) save_trace(plan, engine_run, options.trace);
  if (options.replay) run_replay(plan, kernels, feeds, variables, options, engine_run);
  return 0;
}

}  // namespace

Command exec_command() {
  auto o = std::make_shared<Options>();
  return {"exec",
          "Runs a saved plan on random data, without its program and without the compiler, and prints the time of a "
          "launch.\n"
          "Inputs without a value get random floats in [0, 1), integers below --integers, or bools (false if "
          "--integers is 1). Float variables get random values in [0, 0.01), other variables get 0. The losses "
          "therefore have no meaning, but equal seeds give equal results.",
          {{"FILE", "a plan's text", &o->file},
           {"--input", "NAME=FILE.npy, or NAME=NUMBER for every element; repeat the option for each input", &o->inputs},
           {"--integers",
            "integer inputs are random numbers from 0 to this value minus 1; labels and indices must be in range",
            &o->integers},
           {"--seed", "seed of inputs and variables", &o->seed},
           {"--launches", "number of timed launches, each timed from begin to end", &o->launches},
           {"--warm-up", "number of launches before the timed ones", &o->warm_up},
           {"--workers", "threads; 0: one per core, at most the number that the plan names", &o->workers},
           {"--pin", "bind each worker to its own cores", &o->pin},
           {"--trace", "file for a trace of every act, including warm-up, as JSON for Chrome's tracing or Perfetto",
            &o->trace},
           {"--replay",
            "afterwards, run the plan's calls with prepared arguments in a plain loop on one thread (only for plans of "
            "one device)",
            &o->replay}},
          [o] { return run(*o); },
          {}};
}

}  // namespace karez::tools
