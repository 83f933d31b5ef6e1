// Prints traces as JSON; nlohmann-json formats the strings.
#include "karez/report/trace_json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "karez/base/text.h"

namespace karez::report {
namespace {
using nlohmann::json;

std::string text_of(const TraceValue& value) {
  return std::visit([](const auto& v) { return json(v).dump(-1, ' ', false, json::error_handler_t::replace); }, value);
}

std::string object_of(const std::map<std::string, TraceValue>& values) {
  return cat("{",
             join(values, ",", [](const auto& entry) { return cat(text_of(entry.first), ":", text_of(entry.second)); }),
             "}");
}

std::string microseconds_of(std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%s%lld.%03d", ns < 0 ? "-" : "", std::abs(static_cast<long long>(ns)) / 1000,
                static_cast<int>(std::abs(static_cast<long long>(ns)) % 1000));
  return text;
}

std::string name_event(const char* kind, int process, int lane, const std::string& name) {
  return cat("{\"args\":{\"name\":", text_of(name), "},\"name\":\"", kind, "\",\"ph\":\"M\",\"pid\":", process,
             ",\"tid\":", lane, "}");
}

}  // namespace

std::string print(const Trace& trace) {
  std::vector<std::string> events;
  events.reserve(trace.events.size() + trace.lanes.size() + trace.processes.size());
  for (const auto& [process, name] : trace.processes) events.push_back(name_event("process_name", process, 0, name));
  for (const auto& [lane, name] : trace.lanes)
    events.push_back(name_event("thread_name", lane.first, lane.second, name));
  for (const TraceEvent& event : trace.events)
    events.push_back(cat("{\"args\":", object_of(event.args), ",\"cat\":", text_of(event.category),
                         ",\"dur\":", microseconds_of(event.end - event.begin), ",\"name\":", text_of(event.name),
                         ",\"ph\":\"X\",\"pid\":", event.process, ",\"tid\":", event.lane,
                         ",\"ts\":", microseconds_of(event.begin), "}"));
  return cat("{\"displayTimeUnit\":\"ns\",",
             trace.facts.empty() ? "" : cat("\"otherData\":", object_of(trace.facts), ","), "\"traceEvents\":[",
             join(events, ",\n"), "]}\n");
}

Trace trace_of(const Plan& plan, std::span<const TraceSpan> spans) {
  int workers = 1;
  for (const TraceSpan& span : spans) workers = std::max(workers, span.worker + 1);
  std::map<std::pair<int, int>, int> lanes;  // (worker, concurrent lane) -> lane of the trace
  for (const TraceSpan& span : spans)
    if (span.lane > 0) lanes.emplace(std::pair{span.worker, span.lane}, 0);
  int next = workers;
  for (auto& [lane, number] : lanes) number = next++;

  Trace out;
  out.processes[plan.rank] = cat("rank ", plan.rank, " of ", plan.world, ", plan '", plan.name, "'");
  for (int worker = 0; worker < workers; ++worker) out.lanes[{plan.rank, worker}] = cat("worker ", worker);
  for (const auto& [lane, number] : lanes)
    out.lanes[{plan.rank, number}] = cat("worker ", lane.first, ", concurrent ", lane.second);
  for (const TraceSpan& span : spans) {
    const Actor& actor = plan.actor(span.actor);
    TraceEvent& event = out.events.emplace_back(
        TraceEvent{actor.name, std::string(name_of(actor.body)), plan.rank,
                   span.lane == 0 ? span.worker : lanes.at({span.worker, span.lane}), span.begin, span.end});
    event.args = {{"ticket", std::int64_t{span.ticket}},
                  {"act", span.act},
                  {"worker", std::int64_t{span.worker}},
                  {"where", actor.collective ? actor.collective->where : actor.where}};
    if (span.failed) event.args.emplace("failed", true);
  }
  return out;
}

}  // namespace karez::report
