// Makes the trace of a profile.
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "karez/base/text.h"
#include "karez/report/origin.h"
#include "karez/report/profile.h"

namespace karez::report {
namespace {

// Numbers the lanes of a rank in the order of these keys.
class Lanes {
 public:
  enum Kind { launches, stalls, workers, data_threads, other_threads };
  using Key = std::tuple<Kind, int, int>;

  void add(const Key& key) { numbers_.emplace(key, 0); }
  void number() {
    int next = 0;
    for (auto& [key, number] : numbers_) number = next++;
  }
  int of(const Key& key) const { return numbers_.at(key); }
  std::map<std::pair<int, int>, std::string> names(int rank) const {
    std::map<std::pair<int, int>, std::string> out;
    for (const auto& [key, number] : numbers_) out[{rank, number}] = name_of_lane(key);
    return out;
  }

 private:
  static std::string name_of_lane(const Key& key) {
    const auto& [kind, first, second] = key;
    const std::string concurrent = second > 0 ? cat(", concurrent ", second) : "";
    switch (kind) {
      case launches: return cat("launches", first > 0 ? cat(", concurrent ", first) : "");
      case stalls: return cat("thread ", first, " waits for data");
      case workers: return cat("worker ", first, concurrent);
      case data_threads: return cat("data thread ", first);
      case other_threads: return cat("thread ", first);
    }
    return "";
  }
  std::map<Key, int> numbers_;
};

Lanes::Key lane_of(const ProfiledStage& stage) {
  if (stage.stall) return {Lanes::stalls, stage.thread_id, 0};
  if (stage.thread > 0) return {Lanes::data_threads, stage.thread, 0};
  return {Lanes::other_threads, stage.thread_id, 0};
}

TraceEvent event_of(const CallSpan& span, const Plan& plan) {
  const Actor& actor = plan.actor(span.actor);
  TraceEvent out;
  out.begin = span.begin, out.end = span.end;
  out.category = std::string(name_of(actor.body));
  out.args = {{"ticket", std::int64_t{span.ticket}}, {"actor", actor.name}};
  const bool has_call = span.call >= 0 && static_cast<std::size_t>(span.call) < actor.calls.size();
  if (has_call) {
    const Call& call = actor.calls[static_cast<std::size_t>(span.call)];
    const Origin origin = origin_of(call.where);
    out.name = origin.op.empty() ? call.kernel : origin.op;
    out.args["where"] = call.where;
    out.args["kernel"] = call.kernel;
    if (const std::string expression = call.attrs.text("expr", ""); !expression.empty())
      out.args["expression"] = expression;
  } else {
    out.name = actor.name;
    out.args["where"] = actor.collective ? actor.collective->where : actor.where;
  }
  if (span.cpu >= 0) out.args["cpu_us"] = static_cast<double>(span.cpu) / 1e3;
  if (span.failed) out.args["failed"] = true;
  return out;
}

}  // namespace

Trace trace_of(const ProfileData& data) {
  Trace out;
  const Recording& recording = data.recording;
  std::vector<LaunchSpan> launches = launches_of(recording);
  std::erase_if(launches, [](const LaunchSpan& launch) { return !launch.recorded; });
  std::stable_sort(launches.begin(), launches.end(),
                   [](const LaunchSpan& a, const LaunchSpan& b) { return a.made < b.made; });
  std::vector<CallSpan> calls = calls_of(recording);
  std::set<std::uint32_t> tickets;
  for (const LaunchSpan& launch : launches) tickets.insert(launch.ticket);
  std::erase_if(calls, [&](const CallSpan& span) { return tickets.count(span.ticket) == 0; });

  Lanes lanes;
  std::vector<std::int64_t> free_from;  // by lane of launches
  std::vector<int> lane_of_launch;
  for (const LaunchSpan& launch : launches) {
    const auto lane =
        std::find_if(free_from.begin(), free_from.end(), [&](std::int64_t end) { return end <= launch.made; });
    lane_of_launch.push_back(static_cast<int>(lane - free_from.begin()));
    if (lane == free_from.end()) free_from.push_back(launch.ended);
    else *lane = launch.ended;
    lanes.add({Lanes::launches, lane_of_launch.back(), 0});
  }
  for (const CallSpan& span : calls) lanes.add({Lanes::workers, span.worker, span.lane});
  for (const ProfiledStage& stage : data.stages) lanes.add(lane_of(stage));
  lanes.number();

  out.processes[data.rank] = cat("rank ", data.rank, " of ", data.ranks);
  out.lanes = lanes.names(data.rank);
  std::vector<std::pair<std::int64_t, std::int64_t>> stalls;  // end and length
  for (const ProfiledStage& stage : data.stages)
    if (stage.stall) stalls.emplace_back(stage.end, stage.end - stage.begin);
  std::sort(stalls.begin(), stalls.end());
  auto next_stall = stalls.begin();
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const LaunchSpan& launch = launches[i];
    const auto plan = recording.plans.find(launch.plan);
    TraceEvent& event = out.events.emplace_back(
        TraceEvent{plan == recording.plans.end() ? "launch" : plan->second->name, "launch", data.rank,
                   lanes.of({Lanes::launches, lane_of_launch[i], 0}), launch.made, launch.ended});
    std::int64_t stall = 0;
    for (; next_stall != stalls.end() && next_stall->first <= launch.made; ++next_stall) stall += next_stall->second;
    event.args = {{"ticket", std::int64_t{launch.ticket}},
                  {"queued_us", static_cast<double>(launch.began - launch.made) / 1e3},
                  {"waited_for_data_us", static_cast<double>(stall) / 1e3}};
  }
  for (const CallSpan& span : calls) {
    TraceEvent event = event_of(span, *recording.plans.at(span.plan));
    event.process = data.rank, event.lane = lanes.of({Lanes::workers, span.worker, span.lane});
    out.events.push_back(std::move(event));
  }
  for (const ProfiledStage& stage : data.stages) {
    TraceEvent event{stage.stall ? "waits for data" : stage.stage,
                     stage.stall ? "stall" : "stage",
                     data.rank,
                     lanes.of(lane_of(stage)),
                     stage.begin,
                     stage.end};
    if (stage.stall) event.args = {{"stage", stage.stage}};
    else event.args = {{"elements", stage.elements}, {"bytes", stage.bytes}};
    out.events.push_back(std::move(event));
  }
  std::uint64_t lost = data.lost_stages;
  for (const EventLog& log : recording.workers) lost += log.overwritten;
  out.facts = {
      {"origin_ns", data.origin}, {"rank", std::int64_t{data.rank}}, {"lost_events", static_cast<std::int64_t>(lost)}};
  return out;
}

}  // namespace karez::report
