// What one process knows of itself and its host, and in what two of a job should not differ.
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
  std::vector<int> cpus;  // that this process may run on
  int cores = 1;          // of them that it may reckon with, beside the others of its job on this host
  double memory = 0;      // bytes of the host
  std::string build;      // of this program: compiler, and a hash of its file
  std::string ports;      // that the kernel hands out: "32768 to 60999"
};
Facts facts_of_this_process();  // rates are still to be measured

// For each rank the cores that are its own: what affinity and quota allow, shared with those of its host that may run
// on the same.
void share_cores(std::vector<Facts>& ranks);

std::string print(const Facts& facts);
Facts parse_facts(std::string_view text);

// What differs between ranks that makes them refuse each other, or round differently: a sentence each.
std::vector<std::string> differences(const std::vector<Facts>& ranks);

}  // namespace karez::tools
