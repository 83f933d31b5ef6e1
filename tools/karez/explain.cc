// karez plan explain: a page about a plan. What crosses, memory by module, what sets the pace, and which of the user's lines take the time.
#include <cstdio>
#include <memory>

#include "page/page.h"
#include "page/predict.h"
#include "page/table.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"

namespace karez::tools {
namespace {

struct Options {
  std::string file, costs, html;
  std::int64_t rows = 12;
};

// Rows beyond the most are counted, not shown.
std::string text_of(const Section& section, std::int64_t most) {
  auto rows = section.rows;
  const auto all = static_cast<std::int64_t>(rows.size()) - 1;
  if (all > most) rows.resize(1 + static_cast<std::size_t>(most));
  return cat(section.title, "\n", table(rows), all > most ? cat("  ... and ", all - most, " more (--rows)\n") : "",
             section.note.empty() ? "" : cat("  ", section.note, "\n"));
}

int run(const Options& options) {
  require(options.rows >= 0, "--rows: ", options.rows, " is below 0");
  const Plan plan = sound_plan(options.file);
  const Page page = page_of(plan, read_costs(options.costs));
  if (!options.html.empty()) {
    write_text(options.html, html_of(page));
    return 0;
  }
  std::fputs(page.head.c_str(), stdout);
  for (const Section& section : page.sections) std::printf("\n%s", text_of(section, options.rows).c_str());
  return 0;
}

}  // namespace

Command explain_command() {
  auto o = std::make_shared<Options>();
  return {"explain",
          cat("Prints a page: what crosses devices, bytes and predicted microseconds, memory by module, source lines, the critical cycle.\n",
              how_predicted),
          {{"FILE", "a plan's text", &o->file},
           {"--costs", "file of a cost table; none: the default one, which no machine was measured for", &o->costs},
           {"--rows", "of each table", &o->rows},
           {"--html", "write the page there instead, as HTML with a timeline and a map of memory", &o->html}},
          [o] { return run(*o); },
          {}};
}

}  // namespace karez::tools
