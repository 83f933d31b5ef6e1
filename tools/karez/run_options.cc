// Adds and checks the options that `karez run` and `karez doctor` share, and finds the path at which this program also
// starts on other hosts.
#include "tools/karez/run_options.h"

#include <filesystem>
#include <sstream>

#include "karez/base/error.h"
#include "tools/karez/files.h"

namespace karez::tools {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// Quotes a word, because ssh passes the words to a shell.
std::string quoted_for_shell(const std::string& word) {
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

void add_remote_arguments(Command& command, RemoteOptions& options) {
  const std::vector<Argument> remote_arguments = {
      {"--hosts", "a host file in Open MPI's format, one `alpha slots=4` per line; default: this host", &options.hosts},
      {"--rsh", "the program that runs a command on another host; its arguments are the host's name and the command",
       &options.rsh},
      {"--address", "address at which other hosts reach the host of rank 0; default: its name", &options.address},
      {"--export", "a variable to send to other hosts, as KAREZ_* and OMP_* are; repeat the option for each variable",
       &options.exports},
      {"--loose", "do not bind ranks to separate cores", &options.loose}};
  command.arguments.insert(command.arguments.end(), remote_arguments.begin(), remote_arguments.end());
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

RunOptions job_options(const RemoteOptions& options, std::int64_t ranks) {
  constexpr std::int64_t max = 1 << 16;
  require(ranks >= 1 && ranks <= max, "-n must be 1 to ", max, " ranks, got ", ranks);
  RunOptions out;
  out.ranks = static_cast<int>(ranks);
  if (!options.hosts.empty()) out.hosts = parse_hostfile(read_text(options.hosts), options.hosts);
  out.rsh = words_of(options.rsh);
  require(!out.rsh.empty(), "--rsh '", options.rsh, "' is not a command");
  out.agent = {std::filesystem::path(out.rsh[0]).filename() == "ssh" ? quoted_for_shell(own_path()) : own_path(),
               "agent"};
  out.address = options.address;
  out.exports = options.exports;
  out.bind = !options.loose;
  return out;
}

}  // namespace karez::tools
