// The options for hosts and connections that `karez run` and `karez doctor` share.
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

void add_remote_arguments(Command& command, RemoteOptions& options);       // `options` must outlive the command
RunOptions job_options(const RemoteOptions& options, std::int64_t ranks);  // reads the host file
std::string own_path();                                                    // the path of this program

}  // namespace karez::tools
