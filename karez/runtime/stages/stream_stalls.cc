// Decides when a stage of a stream is reported to make devices wait.
#include "karez/runtime/stages/stream_stalls.h"

#include <cstdio>
#include <vector>

#include "karez/base/text.h"
#include "karez/runtime/stages/stall_report.h"

namespace karez::runtime {

std::string note_read(ServedStream& stream, std::int64_t now, std::int64_t stall, std::int64_t launches) {
  const StallMonitor::Event event = stream.stalls.add(now, stall, launches);
  if (stream.stalls.recovered() && !stream.limit.empty()) {
    stream.warned.assign(stream.warned.size(), false);
    stream.limit.clear();
  }
  if (event == StallMonitor::Event::none) return "";
  const plan::StageGraph& graph = stream.machine->graph();
  if (event == StallMonitor::Event::began) {
    stream.window_ticks.clear();
    for (plan::StageId id : graph.stages.ids()) stream.window_ticks.push_back(stream.ticks_of(id, now));
    return "";
  }
  std::vector<ActivityTimes> times(graph.stages.size());
  for (plan::StageId id : graph.stages.ids()) {
    const auto at = static_cast<std::size_t>(id.index);
    const ServedStream::Ticks until_now = stream.ticks_of(id, now);
    for (std::size_t i = 0; i < until_now.size(); ++i)
      times[at][i] = static_cast<double>(until_now[i] - stream.window_ticks[at][i]);
  }
  const LimitingStage found = limiting_stage(graph, times);
  const auto at = static_cast<std::size_t>(found.stage.index);
  stream.limit = limit_text(stream.machine->tree(), found, stream.cpu[at].share(), stream.own_cores);
  if (stream.warned[at]) return "";
  stream.warned[at] = true;
  char share[32];
  std::snprintf(share, sizeof share, "%.0f", 100 * stream.stalls.share());
  return cat("the devices wait for a data set for ", share, " % of the time; it is ", stream.limit);
}

std::string stalls_text(const ServedStream& stream, const StreamReport& report, double seconds_per_tick,
                        std::int64_t now) {
  if (stream.stalls.reads() == 0) return "";
  const double stall = static_cast<double>(stream.stalls.total()) * seconds_per_tick;
  const double seconds = static_cast<double>(stream.stalls.since_first(now)) * seconds_per_tick;
  const std::string text = stall_text(stall, seconds);
  if (!stream.limit.empty()) return cat(text, "; the data set is ", stream.limit, "\n");
  if (stall < 0.05 * seconds) return cat(text, "\n");
  std::vector<ActivityTimes> times;
  for (const data::StageReport& stage : report.stages) times.push_back(stage.seconds);
  const LimitingStage found = limiting_stage(stream.machine->graph(), times);
  return cat(text, "; the data set was ",
             limit_text(stream.machine->tree(), found, report.stages[static_cast<std::size_t>(found.stage.index)].cpu,
                        stream.own_cores),
             "\n");
}

}  // namespace karez::runtime
