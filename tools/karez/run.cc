// karez run: starts the ranks of a program, on this host or on several, and ends them together.
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
  constexpr std::int64_t most = 1 << 16;
  require(!options.words.empty(), "PROGRAM is required; see karez run --help");
  require(options.words[0][0] != '-', "no option of karez run is called '", options.words[0],
          "'; see karez run --help");
  require(options.devices >= 0 && options.devices <= most, "--devices ", options.devices, ": a rank has 1 to ", most,
          " devices");
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
      "Each rank is told who it is by variables (docs/distributed.md). What it prints comes with its rank in front. "
      "The first rank that\n"
      "fails ends the others, and its exit code is that of the whole; 75 where a signal ended it.",
      {{"-n,--ranks", "how many processes", &options->ranks},
       {"--devices", "of each rank; 0: what the program says", &options->devices},
       {"--output", "a folder for a file of each rank, rank0.txt and so on, in place of printing", &options->output}},
      [options] { return run(*options); },
      {},
      &options->words};
  add_remote_arguments(out, options->remote);
  return out;
}

}  // namespace karez::tools
