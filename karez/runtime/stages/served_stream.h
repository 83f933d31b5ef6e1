// A stream of elements that data threads produce: its actors, the acts that run, and the times of its stages.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "karez/data/stages/skip_counts.h"
#include "karez/data/stages/stage_machine.h"
#include "karez/data/tuning/stream_tuner.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/spin_wait.h"
#include "karez/runtime/stages/act_costs.h"
#include "karez/runtime/stages/cpu_share.h"
#include "karez/runtime/stages/group_size.h"
#include "karez/runtime/stages/stall_monitor.h"

namespace karez::runtime {

// Guarded by the mutex of the DataThreads.
class ServedStream {
 public:
  // `short_act`: the ticks of an act for which no thread should be woken.
  ServedStream(StageTree tree, std::int64_t short_act)
      : stalls(1000 * short_act),
        machine(std::make_unique<StageMachine>(std::move(tree))) {
    for (const plan::Stage& stage : machine->graph().stages) lanes += stage.lanes;
    times.resize(machine->graph().stages.size());
    costs.assign(machine->graph().stages.size(), ActCosts(short_act));
    groups.assign(machine->graph().stages.size(), GroupSize(100 * short_act));
    cpu.resize(machine->graph().stages.size());
    warned.resize(machine->graph().stages.size());
  }
  // Lets numbers of the data set that are automatic be chosen.
  void tune(CoreBudget& budget, int threads, double short_act_seconds) {
    if (!machine->tree().has_automatic_numbers()) return;
    machine->set_core_budget(&budget);
    TunerLimits limits{.cores = budget.cores / 1000, .threads = std::max(threads, 1), .short_act = short_act_seconds};
    if (machine->tree().bytes > 0) limits.bytes = machine->tree().bytes;
    tuner.emplace(*machine, limits);
  }
  // Begins an act of a stage, and lets further elements that are there join it if each takes little time. Other lanes
  // that are free get as many of them.
  std::vector<data::StageExecution> begin(plan::StageId stage) {
    const plan::StagePorts& ports = machine->ports(stage);
    const int most = ports.controlled() ? 1 : machine->most_group(stage);
    const int lanes = ports.lane_limit() - ports.busy_lanes();
    const int there = most > 1 ? static_cast<int>(ports.input(0).count()) : 1;
    std::vector<data::StageExecution> group;
    group.push_back(machine->begin(stage));
    if (most == 1) return group;
    const int size = groups[static_cast<std::size_t>(stage.index)].size(most);
    if (size != machine->group(stage)) machine->set_group(stage, size);
    const int count = std::min(size, (there + lanes - 1) / lanes);
    while (static_cast<int>(group.size()) < count && machine->can_join(group[0]))
      group.push_back(machine->begin(stage, true));
    return group;
  }
  // Whether to measure how long the next act of a stage uses a core. The tuner needs this more often.
  bool measures_computing(plan::StageId stage) {
    const auto number = static_cast<std::size_t>(stage.index);
    const int interval = costs[number].measure_interval();
    return cpu[number].is_due(tuner && tuner->measures(stage) ? std::min(interval, 16) : interval);
  }
  bool is_short(plan::StageId stage) const { return costs[static_cast<std::size_t>(stage.index)].is_short(); }
  // Whether the reader has so many elements that a thread need not be woken for the acts that are ready: at least half
  // of the slots are filled, and all stages are short. To wake a thread for each element would take longer than to make
  // the element.
  bool has_reserve() const {
    const plan::StageId last(machine->graph().stages.size() - 1);
    const auto held = static_cast<int>(machine->readable_count());
    return held > 0 && 2 * held >= machine->ports(last).slot_limit() && all_short();
  }
  bool all_short() const {
    return std::all_of(costs.begin(), costs.end(), [](const ActCosts& cost) { return cost.is_short(); });
  }
  // Wakes the threads that wait for the stream, those that sleep and those that poll.
  void notify_all() {
    changes.fetch_add(1, std::memory_order_release);
    changed.notify_all();
  }
  // Call after the activity of a stage may have changed.
  void note_activity(plan::StageId stage, std::int64_t now) {
    Times& time = times[static_cast<std::size_t>(stage.index)];
    const plan::StageActivity activity = machine->ports(stage).activity();
    if (activity == time.activity) return;
    // Threads may read the clock in another order than that in which they get the mutex.
    const std::int64_t since = std::max(now, time.since);
    time.ticks[static_cast<std::size_t>(time.activity)] += since - time.since;
    time.activity = activity, time.since = since;
  }

  using Ticks = std::array<std::int64_t, plan::stage_activities>;
  // The ticks that a stage has spent in each activity until now.
  Ticks ticks_of(plan::StageId stage, std::int64_t now) const {
    const Times& time = times[static_cast<std::size_t>(stage.index)];
    Ticks out = time.ticks;
    out[static_cast<std::size_t>(time.activity)] += std::max(now, time.since) - time.since;
    return out;
  }

  struct RunningAct {
    plan::StageId stage;
    std::int64_t since = 0;                     // ticks
    int thread = 0;                             // the number of a data thread; 0: another thread
    pid_t thread_id = 0;                        // of the system
    const std::atomic<int>* process = nullptr;  // awaited_process() of the thread, which exists while the act runs
  };
  // The ticks of a stage's acts, and those that it has spent in each activity.
  struct Times {
    std::int64_t acts = 0;
    Ticks ticks = {};
    plan::StageActivity activity = plan::StageActivity::inactive;
    std::int64_t since = 0;
  };
  // The bytes of elements that the stream may hold, and of `held` elements that its reader may hold. Without a limit of
  // the data set, elements ahead of the reader are counted, as large as the first one; 0 before it.
  std::int64_t data_bytes(int held) const {
    const plan::StageId last(machine->graph().stages.size() - 1);
    const std::int64_t limit = machine->tree().bytes, slots = machine->ports(last).slot_limit();
    return (limit > 0 ? limit : slots * element_bytes) + held * element_bytes;
  }

  // The text of a stage for profiles.
  std::shared_ptr<const std::string> label(plan::StageId stage) {
    labels.resize(machine->graph().stages.size());
    auto& text = labels[static_cast<std::size_t>(stage.index)];
    if (!text) text = std::make_shared<const std::string>(machine->tree().stages_text(stage, true));
    return text;
  }

  std::vector<std::shared_ptr<const std::string>> labels;  // by stage; set when they are needed
  std::int64_t element_bytes = 0;                          // of the first element that was read
  std::vector<RunningAct> acts;
  std::vector<Times> times;                     // by stage
  std::vector<ActCosts> costs;                  // by stage
  std::vector<GroupSize> groups;                // by stage
  std::vector<CpuShare> cpu;                    // by stage
  StallMonitor stalls;                          // of the program's reads
  std::vector<Ticks> window_ticks;              // by stage: ticks_of when the monitor's window began
  std::vector<bool> warned;                     // by stage: a warning has named it, and the data set has not recovered
  bool own_cores = false;                       // whether data threads have cores that no kernel uses, or may get
  std::string limit;                            // of the last warning: limit_text; "" after the data set has recovered
  int readers = 0;                              // threads of the program that wait for an element
  int waiting = 0;                              // the same, and acts of other streams
  std::unique_ptr<StageMachine> machine;        // null after a close
  std::optional<StreamTuner> tuner;             // if numbers of the data set are automatic
  std::atomic<bool> wants_other_actors{false};  // see StreamTuner
  int lanes = 0;                                // the maximum number of acts at the same time
  int running = 0;                              // acts
  int closers = 0;                              // threads that wait in `close`
  bool closed = false;
  std::shared_ptr<data::SkipCounts> skip_counts = std::make_shared<data::SkipCounts>();  // of this run
  SpinPolicy spin;                                                                       // of the reader
  std::atomic<std::uint32_t> changes{0};                                                 // calls of notify_all
  std::condition_variable changed;  // an element can be read, or the stream was closed, or an act of it has ended since
};

// One more reader of a stream, as long as it exists.
class ReaderCount {
 public:
  explicit ReaderCount(ServedStream& stream) : stream_(stream) { ++stream_.readers; }
  ~ReaderCount() { --stream_.readers; }
  ReaderCount(const ReaderCount&) = delete;
  ReaderCount& operator=(const ReaderCount&) = delete;

 private:
  ServedStream& stream_;
};

// A thread waits for an element of a stream. If it executes an act of another stream, this act uses no core meanwhile:
// `cores` of the budget are free.
class StreamWait {
 public:
  StreamWait(ServedStream& stream, CoreBudget& budget, int cores, double now)
      : stream_(stream),
        budget_(budget),
        cores_(cores) {
    budget_.used -= cores_;
    ++stream_.waiting;
    if (stream_.tuner) stream_.tuner->note(true, now);
  }
  ~StreamWait() {
    --stream_.waiting;
    budget_.used += cores_;
  }
  StreamWait(const StreamWait&) = delete;
  StreamWait& operator=(const StreamWait&) = delete;

 private:
  ServedStream& stream_;
  CoreBudget& budget_;
  const int cores_;
};

}  // namespace karez::runtime
