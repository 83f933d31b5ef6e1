// Builds a report from predicted times, a simulated launch and tables, and formats its sections as text.
#include "karez/report/plan_report.h"

#include "karez/report/predictor.h"
#include "karez/report/sections.h"
#include "karez/report/table.h"
#include "karez/report/timeline.h"

namespace karez::report {

constexpr std::size_t max_memory_spans = 2000;  // per device; with more spans, browsers would be slow

PlanReport make_report(const Plan& plan) { return make_report(plan, costs_of(plan)); }

PlanReport make_report(const Plan& plan, const CostTable& costs) {
  const Prediction launch = predict(plan, costs);
  PlanReport report;
  report.name = plan.name;
  const std::string summary_text = summary(plan);
  report.header = summary_text.substr(0, summary_text.find('\n', summary_text.find('\n') + 1) + 1);
  report.seconds = launch.seconds;
  report.costs = origin_text(costs);
  report.data_bytes = plan.data_bytes;
  report.caution = default_costs_warning(costs);
  for (const Transfer& transfer : plan.transfers) report.transfer_bytes += transfer.bytes;
  for (DeviceId d : plan.devices.ids()) report.device_names.push_back(device_text(plan, d));
  report.sections = sections_of(plan, launch);
  report.actors = actors_of(plan, launch.acts);
  report.lanes = lanes_of(plan, launch.run);
  report.memory = memory_of(plan, launch.run, max_memory_spans);
  return report;
}

std::string text_of(const Section& section, std::int64_t max_rows_shown, std::string_view option_name) {
  auto rows = section.rows;
  const auto row_count = static_cast<std::int64_t>(rows.size()) - 1;
  if (row_count > max_rows_shown) rows.resize(1 + static_cast<std::size_t>(max_rows_shown));
  return cat(section.title, "\n", table(rows),
             row_count > max_rows_shown ? cat("  ... and ", row_count - max_rows_shown, " more",
                                              option_name.empty() ? "" : cat(" (", option_name, ")"), "\n")
                                        : "",
             section.note.empty() ? "" : cat("  ", section.note, "\n"));
}

std::string summary_of(const Plan& plan, std::string_view extra_lines) {
  constexpr std::int64_t max_rows = 12;
  const CostTable costs = costs_of(plan);
  std::string out = cat(summary(plan), "costs: ", origin_text(costs), "\n", extra_lines);
  if (plan.actors.empty()) return out;
  for (const Section& section : critical_cycle_sections(plan, predict(plan, costs))) out += text_of(section, max_rows);
  return out;
}

}  // namespace karez::report
