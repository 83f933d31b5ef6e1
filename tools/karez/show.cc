// karez plan show: prints a plan's text or its summary.
#include <cstdio>
#include <memory>

#include "karez/report/plan_report.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"

namespace karez::tools {
namespace {

struct Options {
  std::string file;
  bool summary = false;
};

int run(const Options& options) {
  const std::string text = options.summary ? summary_of(verified_plan(options.file)) : print(read_plan(options.file));
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

Command show_command() {
  auto o = std::make_shared<Options>();
  return {"show",
          "Prints a plan as text, one item per line; equal plans have equal texts.",
          {{"FILE", "a plan's text", &o->file},
           {"--summary", "print a summary instead: counts, memory by device, every transfer, the critical cycle",
            &o->summary}},
          [o] { return run(*o); },
          {}};
}

}  // namespace karez::tools
