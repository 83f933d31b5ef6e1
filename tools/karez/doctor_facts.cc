// Reads facts about this process and its host from /proc and from the processor.
#include "tools/karez/doctor_facts.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "karez/base/error.h"
#include "karez/base/hash.h"
#include "karez/base/text.h"
#include "karez/comm/rendezvous/host.h"
#include "karez/device/cpu_budget.h"

namespace karez::tools {
namespace {

// Returns the value of `name` in a file of lines "name : value", or "" if no line has that name.
std::string value_in(const std::string& path, std::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!starts_with(line, name)) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos) return std::string(trim(std::string_view(line).substr(colon + 1)));
  }
  return "";
}

std::string instruction_level() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) return "x86-64-v4";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "x86-64-v3";
  return "x86-64-v2";
#else
  return "unknown instruction set";
#endif
}

std::string own_file_hash() {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash_text(bytes));
  return text;
}

}  // namespace

Facts facts_of_this_process() {
  Facts out;
  out.process = this_process();
  out.host = this_host();
  const std::string model = value_in("/proc/cpuinfo", "model name");
  out.processor = cat(model.empty() ? "unnamed processor" : model, ", ", instruction_level());
  const CpuBudget budget = cpu_budget();
  out.cpus = budget.cpus;
  out.cores = budget.cores;
  out.memory = std::strtod(value_in("/proc/meminfo", "MemTotal").c_str(), nullptr) * 1024;
  out.build = cat("compiler ", __VERSION__, ", file ", own_file_hash());
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  int first_port = 0, last_port = 0;
  if (range >> first_port >> last_port) out.ports = cat(first_port, " to ", last_port);
  return out;
}

void share_cores(std::vector<Facts>& ranks) {
  for (Facts& own : ranks) {
    std::vector<std::vector<int>> cpus;
    for (const Facts& other : ranks)
      if (other.host == own.host) cpus.push_back(other.cpus);
    own.cores = std::clamp(static_cast<int>(fair_core_share(own.cpus, cpus)), 1, own.cores);
  }
}

std::string print(const Facts& facts) {
  return cat(facts.process, "\n", facts.host, "\n", facts.processor, "\n", join(facts.cpus, ","), "\n", facts.cores,
             "\n", facts.memory, "\n", facts.build, "\n", facts.ports);
}

Facts parse_facts(std::string_view text) {
  const std::vector<std::string> lines = split(text, '\n');
  require(ErrorKind::peer, lines.size() == 8, "the facts of a rank must have 8 lines, got ", lines.size());
  Facts out{lines[0], lines[1], lines[2], {}, std::atoi(lines[4].c_str()), std::strtod(lines[5].c_str(), nullptr),
            lines[6], lines[7]};
  for (const std::string& cpu : split(lines[3], ',')) out.cpus.push_back(std::atoi(cpu.c_str()));
  return out;
}

std::vector<std::string> differences(const std::vector<Facts>& ranks) {
  struct Row {
    const char* property;
    std::string Facts::*field;
  };
  constexpr Row rows[] = {{"program", &Facts::build}, {"processor", &Facts::processor}};
  std::vector<std::string> out;
  for (const Row& row : rows)
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      if (ranks[rank].*row.field == ranks[0].*row.field) continue;
      out.push_back(cat("rank ", rank, " (", ranks[rank].process, ") has a different ", row.property, ": ",
                        ranks[rank].*row.field, "; rank 0 (", ranks[0].process, ") has ", ranks[0].*row.field));
      break;
    }
  return out;
}

}  // namespace karez::tools
