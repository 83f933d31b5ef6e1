// Finds the stage that limits a data set and prints what could be done about it.
#include "karez/runtime/stages/stall_report.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "karez/base/text.h"
#include "karez/device/cpu_budget.h"

namespace karez::runtime {
namespace {

using plan::StageActivity;
using plan::StageId;

double time_of(const ActivityTimes& times, StageActivity activity) { return times[static_cast<std::size_t>(activity)]; }

std::string percent(double share, int digits = 0) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %%", digits, 100 * share);
  return text;
}

std::string core_advice(bool own_cores) {
  const bool helps = !own_cores && device::cpu_budget().cpus.size() > 1;
  return helps ? "; try data_cores=1, which leaves it a core that no kernel uses" : "";
}

// What a user may change; "" if nothing is known to help.
std::string advice(const data::StageTree& tree, StageId stage, bool computes, bool own_cores) {
  const std::size_t cores = device::cpu_budget().cpus.size();
  const int lanes = tree.graph.stages[stage].lanes;
  if (computes && static_cast<std::size_t>(lanes) >= cores) return core_advice(own_cores);
  if (lanes > 1) return "; give it a larger parallel";
  std::vector<std::string> functions;
  for (int entry : tree.work[stage].entries)
    if (const auto& node = tree.entries[static_cast<std::size_t>(entry)].node; node->element_function())
      functions.push_back(node->name());
  if (functions.empty()) return "";
  const char* number = computes ? " parallel=2" : " parallel=4";
  if (functions.size() > 1) return cat("; give the slowest of ", join(functions, ", "), number);
  return cat("; give ", tree.work[stage].entries.size() == 1 ? "it" : functions[0], number);
}

}  // namespace

LimitingStage limiting_stage(const plan::StageGraph& graph, const std::vector<ActivityTimes>& times) {
  const auto of = [&](StageId id) -> const ActivityTimes& { return times[static_cast<std::size_t>(id.index)]; };
  const auto works = [&](StageId id) {
    return time_of(of(id), StageActivity::acting) + time_of(of(id), StageActivity::ready);
  };
  StageId stage(graph.stages.size() - 1);
  while (!graph.stages[stage].inputs.empty() && works(stage) < time_of(of(stage), StageActivity::no_input)) {
    const std::vector<StageId>& inputs = graph.stages[stage].inputs;
    // An input that always has a free slot is one that its consumer waits for.
    stage = *std::min_element(inputs.begin(), inputs.end(), [&](StageId a, StageId b) {
      return time_of(of(a), StageActivity::no_slot) < time_of(of(b), StageActivity::no_slot);
    });
  }
  const ActivityTimes& found = of(stage);
  const double total = std::accumulate(found.begin(), found.end(), 0.0) - time_of(found, StageActivity::inactive);
  const double acting = time_of(found, StageActivity::acting);
  return {stage, total > 0 ? acting / total : 0, time_of(found, StageActivity::ready) > acting};
}

std::string limit_text(const data::StageTree& tree, const LimitingStage& limit, std::optional<double> cpu,
                       bool own_cores) {
  std::string out =
      cat("limited by ", tree.stages_text(limit.stage, true), ", which acted ", percent(limit.acting), " of the time");
  if (limit.waits_for_core) return out + " and otherwise waited for a core" + core_advice(own_cores);
  if (cpu) out += *cpu >= 0.5 ? ", CPU" : ", IO";
  return out + advice(tree, limit.stage, cpu && *cpu >= 0.5, own_cores);
}

std::string stall_text(double stall_seconds, double seconds) {
  char text[96];
  std::snprintf(text, sizeof text, "the devices waited for data for %.3f s of %.3f s", stall_seconds, seconds);
  return cat(text, " (", percent(seconds > 0 ? stall_seconds / seconds : 0, 1), ")");
}

}  // namespace karez::runtime
