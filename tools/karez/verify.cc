// karez plan verify: is a plan sound, and does a launch of it run through?
#include <cinttypes>
#include <cstdio>
#include <memory>

#include "plan/dry_run.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"

namespace karez::tools {
namespace {

DryRun live_run(const std::string& file, const Plan& plan) {
  try {
    return dry_run(plan);
  } catch (const Error& error) { throw Error(ErrorKind::hang, cat(file, ": ", error.what()), error.where); }
}

int run(const std::string& file) {
  const Plan plan = sound_plan(file);
  const DryRun launch = live_run(file, plan);
  std::printf("%s: sound; a launch runs through in %zu acts and %" PRId64 " messages; hash %016" PRIx64 "\n", file.c_str(), launch.order.size(),
              launch.messages, rank_hash(plan));
  return 0;
}

}  // namespace

Command verify_command() {
  auto file = std::make_shared<std::string>();
  return {"verify",
          "Checks a plan: ids, operands within their memory, registers that do not overlap; then runs a launch of it without data.\n"
          "Exit code 77: the file is no sound plan. 76: a launch would stand still; who waits for whom is said.",
          {{"FILE", "a plan's text", file.get()}},
          [file] { return run(*file); },
          {}};
}

}  // namespace karez::tools
