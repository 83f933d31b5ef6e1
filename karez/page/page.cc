// Builds a page from predicted times, a launch in virtual time, and tables.
#include "karez/page/page.h"

#include "karez/page/predictor.h"
#include "karez/page/sections.h"
#include "karez/page/table.h"
#include "karez/page/timeline.h"

namespace karez::page {

constexpr std::size_t max_held = 2000;  // per device; more would make browsers slow

Page page_of(const Plan& plan) { return page_of(plan, costs_of(plan)); }

Page page_of(const Plan& plan, const CostTable& costs) {
  const Prediction launch = predict(plan, costs);
  Page page;
  page.name = plan.name;
  const std::string head = summary(plan);
  page.header = head.substr(0, head.find('\n', head.find('\n') + 1) + 1);
  page.seconds = launch.seconds;
  page.costs = origin_text(costs);
  page.caution = default_costs_warning(costs);
  for (const Transfer& transfer : plan.transfers) page.transfer_bytes += transfer.bytes;
  for (DeviceId d : plan.devices.ids()) page.device_names.push_back(device_text(plan, d));
  page.sections = sections_of(plan, launch);
  page.actors = actors_of(plan, launch.acts);
  page.lanes = lanes_of(plan, launch.run);
  page.memory = memory_of(plan, launch.run, max_held);
  return page;
}

std::string text_of(const Section& section, std::int64_t most, std::string_view how) {
  auto rows = section.rows;
  const auto all = static_cast<std::int64_t>(rows.size()) - 1;
  if (all > most) rows.resize(1 + static_cast<std::size_t>(most));
  return cat(section.title, "\n", table(rows),
             all > most ? cat("  ... and ", all - most, " more", how.empty() ? "" : cat(" (", how, ")"), "\n") : "",
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

}  // namespace karez::page
