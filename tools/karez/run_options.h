// Options of `karez run` that other subcommands have too: which hosts, and how to reach them.
#pragma once

#include <string>
#include <vector>

#include "tools/karez/cli.h"
#include "tools/karez/run_job.h"
#include "tools/namespace.h"

namespace karez::tools {

struct RemoteOptions {
  std::string hosts, rsh = "ssh -o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3", address;
  std::vector<std::string> exports;
  bool loose = false;
};

void add_remote_arguments(Command& command, RemoteOptions& options);       // which must outlive it
RunOptions job_options(const RemoteOptions& options, std::int64_t ranks);  // reads the file of hosts
std::string own_path();                                                    // of this program

}  // namespace karez::tools
