// Collects facts about this process and its host, and compares the facts of all ranks of a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

struct Facts {
  std::string process;    // "alpha, process 4711"
  std::string host;       // comm::this_host
  std::string processor;  // "AMD EPYC 9B14, x86-64-v4"
  std::vector<int> cpus;  // the CPUs on which this process may run
  int cores = 1;          // number of cores that this process may use, next to the other ranks on this host
  double memory = 0;      // bytes of memory of the host
  std::string build;      // compiler and hash of this program's file
  std::string ports;      // the range from which the operating system assigns ports: "32768 to 60999"
};
Facts facts_of_this_process();  // without rates, which are measured later

// Sets each rank's number of cores: the cores that affinity and quota allow, divided among the ranks of the host that
// may run on the same cores.
void share_cores(std::vector<Facts>& ranks);

std::string print(const Facts& facts);
Facts parse_facts(std::string_view text);

// Returns one sentence for each difference that makes ranks reject each other or round differently.
std::vector<std::string> differences(const std::vector<Facts>& ranks);

}  // namespace karez::tools
