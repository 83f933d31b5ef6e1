// A job of ranks from its beginning to its end, on this host and on others.
#pragma once

#include <string>
#include <vector>

#include "tools/karez/hostfile.h"
#include "tools/namespace.h"

namespace karez::tools {

struct RunOptions {
  std::vector<std::string> words;  // program and arguments
  int ranks = 1;
  int devices = 0;                    // of each rank; 0: what the program says
  std::vector<HostSlots> hosts = {};  // none: this one
  std::vector<std::string> rsh =
      {};  // what runs a command on another host: it gets the host's name and the command's words behind
  std::vector<std::string> agent = {};    // the command there: this program's path, "agent"
  std::string address = {};               // by which other hosts reach rank 0's; "": its name among the hosts
  std::string output = {};                // a folder for a file of each rank
  std::vector<std::string> exports = {};  // names of variables that travel to other hosts, beside KAREZ_* and OMP_*
  bool bind = true;
  bool prefix = true;  // the rank in front of each line
};

int run_job(const RunOptions& options);  // its exit code

}  // namespace karez::tools
