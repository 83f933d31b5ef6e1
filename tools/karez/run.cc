// karez run: starts the ranks of a program on one or several hosts, and ends them together.
#include <memory>

#include "karez/base/error.h"
#include "tools/karez/commands.h"
#include "tools/karez/run_options.h"

namespace karez::tools {
namespace {

struct Options {
  std::int64_t ranks = 1, devices = 0;
  std::string output;
  std::vector<std::string> words;
  RemoteOptions remote;
};

int run(const Options& options) {
  constexpr std::int64_t max = 1 << 16;
  require(!options.words.empty(), "PROGRAM is required; see karez run --help");
  require(options.words[0][0] != '-', "unknown option '", options.words[0], "'; see karez run --help");
  require(options.devices >= 0 && options.devices <= max, "--devices must be 0 to ", max, ", got ", options.devices);
  RunOptions job = job_options(options.remote, options.ranks);
  job.words = options.words;
  job.devices = static_cast<int>(options.devices);
  job.output = options.output;
  return run_job(job);
}

}  // namespace

Command run_command() {
  auto options = std::make_shared<Options>();
  Command out{
      "run",
      "Starts the ranks of a program and ends them together: karez run -n 4 PROGRAM ARGUMENTS...\n"
      "Environment variables give each rank its number (docs/distributed.md). Output is printed line by line with\n"
      "the rank as a prefix. The first rank that fails ends the others; its exit code, or 75 if a signal ended it, is "
      "the\nexit code of the job.",
      {{"-n,--ranks", "number of processes", &options->ranks},
       {"--devices", "devices of each rank; 0: the program decides", &options->devices},
       {"--output", "a folder for the output, one file per rank (rank0.txt ...), instead of printing",
        &options->output}},
      [options] { return run(*options); },
      {},
      &options->words};
  add_remote_arguments(out, options->remote);
  return out;
}

}  // namespace karez::tools
