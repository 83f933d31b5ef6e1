// Pairs the begin and end events of acts into spans.
#include "karez/report/trace_spans.h"

#include <algorithm>
#include <map>

namespace karez::report {

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
    std::vector<std::int64_t> free_from;  // end of the last span, by concurrent lane
    for (std::size_t i = 0; i < finished.size(); ++i) {
      TraceSpan& span = finished[i];
      const bool concurrent = plan.actor(span.actor).collective.has_value() ||
                              (i + 1 < finished.size() && finished[i + 1].begin < span.end);
      if (!concurrent) continue;
      const auto lane =
          std::find_if(free_from.begin(), free_from.end(), [&](std::int64_t end) { return end <= span.begin; });
      span.lane = static_cast<int>(lane - free_from.begin()) + 1;
      if (lane == free_from.end()) free_from.push_back(span.end);
      else *lane = span.end;
    }
    out.insert(out.end(), finished.begin(), finished.end());
  }
  return out;
}

}  // namespace karez::report
