// Reports of a compiled function on its latest plan: times, bytes, layouts, and the HTML document.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "karez/api/state/compiled_function.h"
#include "karez/api/state/program_compilation.h"
#include "karez/passes/sharding/explain.h"
#include "karez/report/plan_report.h"
#include "karez/report/predictor.h"

namespace karez {

// References into the result stay valid as long as no other thread calls the function.
const Function::CompiledProgram& Function::latest() const {
  WorldLock lock(*state_->mesh.world);
  require(!state_->plans->list.empty(), "function '", state_->options.name,
          "' has no plan before its first call (or `compile`)");
  return *state_->plans->list.back();
}

const Graph& Function::graph() const { return latest().graph; }
double Function::layout_seconds() const { return latest().cost; }
double Function::predicted_seconds() const {
  const Plan& plan = latest().plan;
  return report::predict(plan, report::costs_of(plan)).seconds;
}
const Plan& Function::plan() const { return latest().plan; }
std::string Function::summary() const {
  const CompiledProgram& compiled = latest();
  const std::string stalls = compiled.stalls.text(state_->mesh.world->data_threads->seconds_per_tick());
  return report::summary_of(compiled.plan, state_->mesh.world->session.contention_text()) + compiled.memory_note +
         (stalls.empty() ? "" : stalls + "\n");
}
struct PlanPage::Content {
  Plan plan;
  std::string stalls;
};
std::string PlanPage::text() const { return print(content_->plan); }
std::string PlanPage::html() const {
  report::PlanReport out = report::make_report(content_->plan);
  if (!content_->stalls.empty()) out.sections.push_back({.title = content_->stalls, .rows = {}, .note = ""});
  return report::html_of(out);
}
PlanPage Function::page() const {
  return PlanPage(std::make_shared<const PlanPage::Content>(
      PlanPage::Content{latest().plan, latest().stalls.text(state_->mesh.world->data_threads->seconds_per_tick())}));
}
std::int64_t Function::peak_bytes() const {
  const auto bytes = planned_bytes(latest().plan);
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}
const std::string& Function::shard_report() const { return latest().report; }
const std::vector<PassTime>& Function::passes() const { return latest().passes; }
std::string Function::explain(const std::string& value) const {
  const CompiledProgram& compiled = latest();
  return print(passes::explain_layout(
      make_compilation(*state_->mesh.world, compiled.planner_input, state_->options, compiled.batch), value));
}
int Function::signatures() const {
  WorldLock lock(*state_->mesh.world);
  return static_cast<int>(state_->plans->list.size());
}

}  // namespace karez
