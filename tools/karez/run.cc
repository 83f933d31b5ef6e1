// karez run: starts the ranks of a program, on this host or on several, and ends them together.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "tools/karez/commands.h"
#include "tools/karez/files.h"
#include "tools/karez/run_job.h"

namespace karez::tools {
namespace {

struct Options {
  std::int64_t ranks = 1, devices = 0;
  std::string hosts, rsh = "ssh -o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3", output, address;
  std::vector<std::string> exports, words;
  bool loose = false;
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// ssh hands its words to a shell.
std::string quoted_for_shell(const std::string& word) {
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

int run(const Options& options) {
  constexpr std::int64_t most = 1 << 16;
  require(!options.words.empty(), "PROGRAM is required; see karez run --help");
  require(options.words[0][0] != '-', "no option of karez run is called '", options.words[0], "'; see karez run --help");
  require(options.ranks >= 1 && options.ranks <= most, "-n ", options.ranks, ": there are 1 to ", most, " ranks");
  require(options.devices >= 0 && options.devices <= most, "--devices ", options.devices, ": a rank has 1 to ", most, " devices");
  RunOptions out;
  out.words = options.words;
  out.ranks = static_cast<int>(options.ranks);
  out.devices = static_cast<int>(options.devices);
  if (!options.hosts.empty()) out.hosts = parse_hostfile(read_text(options.hosts), options.hosts);
  out.rsh = words_of(options.rsh);
  require(!out.rsh.empty(), "--rsh '", options.rsh, "' is no command");
  const std::string path = std::filesystem::read_symlink("/proc/self/exe").string();
  out.agent = {std::filesystem::path(out.rsh[0]).filename() == "ssh" ? quoted_for_shell(path) : path, "agent"};
  out.address = options.address;
  out.output = options.output;
  out.exports = options.exports;
  out.bind = !options.loose;
  return run_job(out);
}

}  // namespace

Command run_command() {
  auto options = std::make_shared<Options>();
  return {"run",
          "Starts the ranks of a program and ends them together: karez run -n 4 PROGRAM ARGUMENTS...\n"
          "Each rank is told who it is by variables (docs/distributed.md). What it prints comes with its rank in front. The first rank that fails\n"
          "ends the others, and its exit code is that of the whole; 75 where a signal ended it.",
          {{"-n,--ranks", "how many processes", &options->ranks},
           {"--devices", "of each rank; 0: what the program says", &options->devices},
           {"--hosts", "a file of hosts in Open MPI's form: `alpha slots=4` a line; without it this host", &options->hosts},
           {"--rsh", "what runs a command on another host; it gets the host's name and the command behind", &options->rsh},
           {"--address", "by which other hosts reach rank 0's; otherwise its name", &options->address},
           {"--output", "a folder for a file of each rank, rank0.txt and so on, in place of printing", &options->output},
           {"--export", "a variable that travels to other hosts, beside KAREZ_* and OMP_*; once each", &options->exports},
           {"--loose", "do not bind ranks to cores of their own", &options->loose}},
          [options] { return run(*options); },
          {},
          &options->words};
}

}  // namespace karez::tools
