// Pairs the begin and end events of acts into spans.
#include "karez/report/trace_spans.h"

#include <algorithm>
#include <map>

namespace karez::report {

std::vector<int> lanes_of(std::span<const LaneInterval> acts) {
  std::vector<int> out(acts.size(), 0);
  std::vector<std::int64_t> free_from;  // end of the last act, by concurrent lane
  for (std::size_t i = 0; i < acts.size(); ++i) {
    if (!acts[i].concurrent && (i + 1 == acts.size() || acts[i + 1].begin >= acts[i].end)) continue;
    const auto lane =
        std::find_if(free_from.begin(), free_from.end(), [&](std::int64_t end) { return end <= acts[i].begin; });
    out[i] = static_cast<int>(lane - free_from.begin()) + 1;
    if (lane == free_from.end()) free_from.push_back(acts[i].end);
    else *lane = acts[i].end;
  }
  return out;
}

std::vector<TraceSpan> spans_of(const Plan& plan, std::int32_t number, std::span<const EventLog> logs) {
  std::vector<TraceSpan> out;
  for (std::size_t worker = 0; worker < logs.size(); ++worker) {
    std::map<ActorId, TraceSpan> running;
    std::vector<TraceSpan> finished;
    for (const Event& event : logs[worker].events) {
      if (event.plan != number || !plan.actors.has(event.actor)) continue;
      TraceSpan span{event.actor, event.piece, event.ticket, static_cast<int>(worker), 0, event.time,
                     event.time,  false,       true};
      if (event.kind == EventKind::began) {
        running.insert_or_assign(event.actor, span);
      } else if (event.kind == EventKind::acted) {
        span.worked = false;
        finished.push_back(span);
      } else if (event.kind == EventKind::failed) {
        if (auto at = running.find(event.actor); at != running.end()) at->second.failed = true;
      } else if (event.kind == EventKind::ended) {
        auto at = running.find(event.actor);
        if (at == running.end()) continue;
        at->second.end = event.time;
        finished.push_back(at->second);
        running.erase(at);
      }
    }
    std::stable_sort(finished.begin(), finished.end(),
                     [](const TraceSpan& a, const TraceSpan& b) { return a.begin < b.begin; });
    std::vector<LaneInterval> intervals;
    intervals.reserve(finished.size());
    for (const TraceSpan& span : finished)
      intervals.push_back({span.begin, span.end, plan.actor(span.actor).collective.has_value()});
    const std::vector<int> lanes = lanes_of(intervals);
    for (std::size_t i = 0; i < finished.size(); ++i) finished[i].lane = lanes[i];
    out.insert(out.end(), finished.begin(), finished.end());
  }
  return out;
}

}  // namespace karez::report
