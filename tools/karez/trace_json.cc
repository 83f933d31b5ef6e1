// Writes a trace as JSON with nlohmann-json.
#include <map>
#include <nlohmann/json.hpp>

#include "karez/base/text.h"
#include "tools/karez/trace.h"

namespace karez::tools {
namespace {
using nlohmann::json;

json name_event(const char* kind, int rank, int lane, const std::string& name) {
  return {{"ph", "M"}, {"name", kind}, {"pid", rank}, {"tid", lane}, {"args", {{"name", name}}}};
}

}  // namespace

std::string trace_json(const Plan& plan, std::span<const TraceSpan> spans) {
  int workers = 1;
  for (const TraceSpan& span : spans) workers = std::max(workers, span.worker + 1);
  std::map<std::pair<int, int>, int> lanes;  // (worker, concurrent lane) -> tid
  for (const TraceSpan& span : spans)
    if (span.lane > 0) lanes.emplace(std::pair{span.worker, span.lane}, 0);
  int next = workers;
  for (auto& [lane, number] : lanes) number = next++;

  json events = json::array();
  events.push_back(name_event("process_name", plan.rank, 0,
                              cat("rank ", plan.rank, " of ", plan.world, ", plan '", plan.name, "'")));
  for (int worker = 0; worker < workers; ++worker)
    events.push_back(name_event("thread_name", plan.rank, worker, cat("worker ", worker)));
  for (const auto& [lane, number] : lanes)
    events.push_back(
        name_event("thread_name", plan.rank, number, cat("worker ", lane.first, ", concurrent ", lane.second)));
  for (const TraceSpan& span : spans) {
    const Actor& actor = plan.actor(span.actor);
    json args = {{"ticket", span.ticket},
                 {"act", span.act},
                 {"worker", span.worker},
                 {"where", actor.collective ? actor.collective->where : actor.where}};
    if (span.failed) args["failed"] = true;
    events.push_back({{"ph", "X"},
                      {"name", actor.name},
                      {"cat", std::string(name_of(actor.body))},
                      {"pid", plan.rank},
                      {"tid", span.lane == 0 ? span.worker : lanes.at({span.worker, span.lane})},
                      {"ts", static_cast<double>(span.begin) / 1000},
                      {"dur", static_cast<double>(span.end - span.begin) / 1000},
                      {"args", std::move(args)}});
  }
  const json trace = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}};
  return trace.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace karez::tools
