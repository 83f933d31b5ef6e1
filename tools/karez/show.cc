// karez plan show: a plan's text, or its page.
#include <cstdio>
#include <memory>

#include "karez/page/page.h"
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
          "Prints a plan as text, each thing on a line of its own; the same plan has the same text.",
          {{"FILE", "a plan's text", &o->file},
           {"--summary", "a page instead: counts, memory by device, every transfer, what sets the pace", &o->summary}},
          [o] { return run(*o); },
          {}};
}

}  // namespace karez::tools
