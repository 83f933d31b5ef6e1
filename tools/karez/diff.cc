// karez plan diff: prints the lines that differ between two plans.
#include <cstdio>
#include <memory>

#include "tools/karez/commands.h"
#include "tools/karez/files.h"
#include "tools/karez/line_diff.h"

namespace karez::tools {
namespace {

struct Options {
  std::string first, second;
};

int run(const Options& options) {
  const auto changes = line_diff(print(read_plan(options.first)), print(read_plan(options.second)));
  for (const LineChange& change : changes)
    std::printf("%c %zu: %s\n", change.added ? '+' : '-', change.line, change.text.c_str());
  return changes.empty() ? 0 : 1;
}

}  // namespace

Command diff_command() {
  auto o = std::make_shared<Options>();
  return {"diff",
          "Prints only the lines that differ: '-' with the line number in FIRST, '+' with the line number in SECOND.\n"
          "Exit code 1 if the plans differ, 0 if not. Comments and spaces do not count.",
          {{"FIRST", "a plan's text", &o->first}, {"SECOND", "the text of another plan", &o->second}},
          [o] { return run(*o); },
          {}};
}

}  // namespace karez::tools
