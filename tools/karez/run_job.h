// Runs a job of ranks on this host and on others.
#pragma once

#include <string>
#include <vector>

#include "tools/karez/hostfile.h"
#include "tools/namespace.h"

namespace karez::tools {

struct RunOptions {
  std::vector<std::string> words;  // program and arguments
  int ranks = 1;
  int devices = 0;                    // number of devices of each rank; 0: the program decides
  std::vector<HostSlots> hosts = {};  // empty: this host
  // The program that runs a command on another host. Its arguments are the host's name and the command's words.
  std::vector<std::string> rsh = {};
  std::vector<std::string> agent = {};  // the remote command: this program's path, "agent"
  std::string address = {};             // where other hosts reach the host of rank 0; "": its name in `hosts`
  std::string output = {};              // the folder for the output files of the ranks
  // Names of variables that are sent to other hosts, in addition to KAREZ_* and OMP_*.
  std::vector<std::string> exports = {};
  bool bind = true;
  bool prefix = true;  // prefix each line with the rank
};

int run_job(const RunOptions& options);  // returns the exit code

}  // namespace karez::tools
