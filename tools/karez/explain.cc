// karez plan explain: prints a report on a plan: transfers, memory by module, source lines and the critical cycle.
#include <cstdio>
#include <memory>

#include "karez/report/plan_report.h"
#include "karez/report/predictor.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"

namespace karez::tools {
namespace {

struct Options {
  std::string file, costs, html;
  std::int64_t rows = 12;
};

int run(const Options& options) {
  require(options.rows >= 0, "--rows must be at least 0, got ", options.rows);
  const Plan plan = verified_plan(options.file);
  const PlanReport report = make_report(plan, costs_of(options.costs, plan));
  if (!options.html.empty()) {
    write_text(options.html, html_of(report));
    return 0;
  }
  std::printf("%scosts: %s\n", report.header.c_str(), report.costs.c_str());
  for (const Section& section : report.sections) std::printf("\n%s", text_of(section, options.rows, "--rows").c_str());
  return 0;
}

}  // namespace

Command explain_command() {
  auto o = std::make_shared<Options>();
  return {
      "explain",
      cat("Prints a report: transfers with bytes and predicted microseconds, memory by module, source lines, and the "
          "critical cycle.\n",
          prediction_method),
      {{"FILE", "a plan's text", &o->file},
       {"--costs", "file of a cost table; otherwise the plan's own table", &o->costs},
       {"--rows", "maximum number of rows of each table", &o->rows},
       {"--html", "write the report to this file, as HTML with a timeline and a map of memory", &o->html}},
      [o] { return run(*o); },
      {}};
}

}  // namespace karez::tools
