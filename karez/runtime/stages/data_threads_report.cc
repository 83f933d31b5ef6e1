// Reports what the streams of data threads do: for explain(), for memory limits and for other ranks.
#include <cstdio>

#include "karez/base/text.h"
#include "karez/data/stages/stage_report.h"
#include "karez/device/process_memory.h"
#include "karez/runtime/stages/data_threads.h"
#include "karez/runtime/stages/served_stream.h"
#include "karez/runtime/stages/stream_stalls.h"

namespace karez::runtime {

namespace {

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

}  // namespace

std::string DataThreads::explain(const ServedStream& stream, const StreamStateRef& state) {
  check_process();
  std::lock_guard lock(mutex_);
  require(!stream.closed, "the iterator is closed");
  const StageMachine& machine = *stream.machine;
  const std::int64_t now = ticks();
  StreamReport report{.bytes = machine.bytes_held(), .process_bytes = device::process_memory(), .state = state};
  for (plan::StageId id : machine.graph().stages.ids()) {
    const ServedStream::Times& times = stream.times[static_cast<std::size_t>(id.index)];
    StageReport& stage = report.stages.emplace_back();
    stage.filled = machine.ports(id).filled_slots();
    stage.lanes = machine.ports(id).lane_limit(), stage.slots = machine.ports(id).slot_limit();
    stage.acts = machine.counts(id).acts, stage.elements = machine.counts(id).elements;
    stage.act_seconds = seconds(times.acts);
    for (const ServedStream::RunningAct& act : stream.acts)
      if (act.stage == id) stage.act_seconds += seconds(now - act.since);
    const ServedStream::Ticks activities = stream.ticks_of(id, now);
    for (std::size_t i = 0; i < activities.size(); ++i) stage.seconds[i] = seconds(activities[i]);
    stage.cpu = stream.cpu[static_cast<std::size_t>(id.index)].share();
  }
  if (stream.tuner) report.numbers = stream.tuner->text();
  return cat(data::explain(machine.tree(), &report), core_tuner_ ? cat(core_tuner_->text(), "\n") : "",
             idle_clock_->launches() > 0 ? stalls_text(stream, report, seconds_per_tick(), now) : "");
}

std::int64_t DataThreads::data_bytes(int held) {
  std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& stream : streams_) bytes += stream->data_bytes(held);
  return bytes;
}

// If several streams are read or several acts run, the act that has been running for the longest time is named.
void DataThreads::add_state(RankState& state) {
  std::lock_guard lock(mutex_);
  state.progress += acts_;
  const ServedStream* waited = nullptr;
  const ServedStream::RunningAct* oldest = nullptr;
  for (const auto& stream : streams_) {
    if (stream->readers == 0) continue;
    if (waited == nullptr) waited = stream.get();
    for (const ServedStream::RunningAct& act : stream->acts)
      if (oldest == nullptr || act.since < oldest->since) oldest = &act, waited = stream.get();
  }
  if (waited == nullptr) return;
  if (oldest == nullptr) {
    state.waits.push_back({RankWait::data, "an element of a data set, no stage of which is running"});
    return;
  }
  state.data_seconds = seconds(ticks() - oldest->since);
  const int process = *oldest->process;
  state.waits.push_back(
      {RankWait::data,
       cat("stage ", waited->machine->tree().current_stage(oldest->stage),
           " of a data set, which has been running for ", seconds_text(state.data_seconds), " on ",
           oldest->thread > 0 ? cat("data thread ", oldest->thread) : "a thread", " (thread id ", oldest->thread_id,
           ")", process > 0 ? cat(", which waits for worker process ", process) : "")});
}

}  // namespace karez::runtime
