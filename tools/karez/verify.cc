// karez plan verify: checks that a plan is valid and that a launch of it ends.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "karez/base/text.h"
#include "karez/kernels/prepare_call.h"
#include "karez/plan/dry_run.h"
#include "karez/runtime/load/links.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"

namespace karez::tools {
namespace {

DryRun run_without_data(const std::string& file, const Plan& plan) {
  try {
    return dry_run(plan);
  } catch (const Error& error) { throw Error(ErrorKind::hang, cat(file, ": ", error.what()), error.where); }
}

// Checks calls and collectives as loading does. Returns the names of the kernels that this build lacks, with the number
// of calls of each.
std::map<std::string, int> verify_calls(const std::string& file, const Plan& plan) {
  const KernelTable kernels(cpu_kernels());
  std::map<std::string, int> missing_kernels;
  const auto verify_call = [&](const Call& call, DeviceId device) {
    const auto has_name = [&](const KernelRow& row) { return row.name == call.kernel; };
    if (std::none_of(kernels.rows().begin(), kernels.rows().end(), has_name)) {
      ++missing_kernels[call.kernel];
      return;
    }
    try {
      prepare_call(kernels, call, plan.devices[device].kind);
    } catch (const Error& error) {
      throw Error(ErrorKind::data, cat(file, ": ", call.where.empty() ? "" : call.where + ": ", error.what()),
                  error.where);
    }
  };
  for (const Actor& actor : plan.actors) {
    for (const Call& call : actor.calls) verify_call(call, plan.stream(actor.stream).device);
    try {
      if (actor.collective) checked_spec(plan, actor);
    } catch (const Error& error) { throw Error(ErrorKind::data, cat(file, ": ", error.what()), error.where); }
  }
  for (const Call& call : plan.setup)
    verify_call(call, call.out.empty() ? DeviceId(0) : plan.block(call.out[0].block).device);
  return missing_kernels;
}

// Throws if the layout text of a variable has no dtype, or if its bytes are not a multiple of the size of the dtype.
void verify_variables(const std::string& file, const Plan& plan) {
  for (const Block& block : plan.blocks) {
    if (block.kind != BlockKind::variable) continue;
    try {
      const DType dtype = dtype_from(std::string_view(block.layout).substr(0, block.layout.find('[')));
      require(block.bytes % size_of(dtype) == 0, block.bytes, " bytes are not a multiple of the size of ",
              name_of(dtype));
    } catch (const Error& error) {
      throw Error(ErrorKind::data, cat(file, ": variable '", block.name, "' \"", block.layout, "\": ", error.what()));
    }
  }
}

int run(const std::string& file) {
  const Plan plan = verified_plan(file);
  verify_variables(file, plan);
  const auto missing_kernels = verify_calls(file, plan);
  const DryRun launch = run_without_data(file, plan);
  std::printf("%s: valid; a launch ends after %zu acts and %" PRId64 " messages; hash %016" PRIx64 "\n", file.c_str(),
              launch.order.size(), launch.messages, rank_hash(plan));
  for (const auto& [kernel, calls] : missing_kernels)
    std::printf("  not checked: %d call%s of %s, a kernel that this build does not have\n", calls,
                calls == 1 ? "" : "s", kernel.c_str());
  return 0;
}

}  // namespace

Command verify_command() {
  auto file = std::make_shared<std::string>();
  return {
      "verify",
      "Checks that the ids of a plan are valid, that operands lie within their memory, that registers do not overlap "
      "and that kernels support their calls. Then runs a launch without data.\n"
      "Exit code 77: the plan is invalid. 76: a launch would deadlock; the waits between actors are listed.",
      {{"FILE", "a plan's text", file.get()}},
      [file] { return run(*file); },
      {}};
}

}  // namespace karez::tools
