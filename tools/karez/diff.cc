// karez plan diff: the lines in which two plans differ.
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
  return {
      "diff",
      "Prints only the lines in which two plans differ: '-' with its number in FIRST, '+' with its number in SECOND.\n"
      "Exit code 1 if they differ, 0 if not. Both are printed anew before, so comments and spaces do not count.",
      {{"FIRST", "a plan's text", &o->first}, {"SECOND", "another's", &o->second}},
      [o] { return run(*o); },
      {}};
}

}  // namespace karez::tools
