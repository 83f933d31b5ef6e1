// Formats and parses settings, and decides for rank 0 whether the settings of all ranks match.
#include "karez/api/ranks/common_settings.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

#include "karez/api/namespace.h"
#include "karez/base/text.h"

namespace karez {
namespace {

// Returns the processor features by which kernels are selected.
std::string cpu_class() {
#if defined(__x86_64__)
  return cat("x86", __builtin_cpu_supports("avx2") ? " avx2" : "", __builtin_cpu_supports("fma") ? " fma" : "",
             __builtin_cpu_supports("avx512f") ? " avx512f" : "",
             __builtin_cpu_supports("avx512bw") ? " avx512bw" : "");
#else
  return "not an x86 processor";
#endif
}

std::string_view name_of(InputCheck check) {
  switch (check) {
    case InputCheck::off: return "off";
    case InputCheck::sampled: return "sampled";
    case InputCheck::full: return "full";
  }
  return "?";
}

// Returns the first line in which two texts with the same number of lines differ.
std::string first_difference(const std::string& a, const std::string& b) {
  std::istringstream left(a), right(b);
  for (std::string x, y; std::getline(left, x) && std::getline(right, y);)
    if (x != y) return cat("'", x, "' against '", y, "'");
  return "one text is longer";
}

}  // namespace

std::string CommonSettings::print() const {
  return cat(cores, " ", memory, "\nhosts ", base::join(topology.hosts, " "), "\nlink ", topology.link, "\n", costs);
}

CommonSettings CommonSettings::parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::string first, hosts, link;
  std::getline(in, first), std::getline(in, hosts), std::getline(in, link);
  CommonSettings out;
  std::istringstream numbers(first);
  numbers >> out.cores >> out.memory;
  require(ErrorKind::peer, !numbers.fail() && hosts.starts_with("hosts ") && link.starts_with("link ") && !in.fail(),
          "rank 0 sent malformed common settings: ", text);
  out.topology.hosts.clear();
  std::istringstream list(hosts.substr(6));
  for (int host = 0; list >> host;) out.topology.hosts.push_back(host);
  out.topology.link = link.substr(5);
  out.costs.assign(std::istreambuf_iterator<char>(in), {});
  return out;
}

std::string RankInfo::print() const { return cat(cores, " ", memory, "\n", machine, "\n", host, "\n", equal); }

RankInfo RankInfo::parse(const std::string& text) {
  std::istringstream in(text);
  RankInfo out;
  std::string line;
  std::getline(in, line);
  std::istringstream(line) >> out.cores >> out.memory;
  std::getline(in, out.machine);
  std::getline(in, out.host);
  while (std::getline(in, line)) out.equal += line + "\n";
  return out;
}

std::string options_to_match(const WorldOptions& options, const std::string& versions) {
  return cat(versions, "processor = ", cpu_class(), "\ndevices = ", options.devices, "\nseed = ", options.seed,
             "\nteam = ", options.team, "\ndata_cores = ", options.data_cores, "\nin_flight = ", options.in_flight,
             "\ncheck_inputs = ", name_of(options.check_inputs), "\n");
}

std::string decide(const std::vector<RankInfo>& rank_infos, std::string costs, std::string link) {
  CommonSettings common_settings{rank_infos[0].cores, rank_infos[0].memory, {{}, std::move(link)}, std::move(costs)};
  std::map<std::string, int> hosts;
  for (const RankInfo& info : rank_infos)
    common_settings.topology.hosts.push_back(
        hosts.try_emplace(info.host, static_cast<int>(hosts.size())).first->second);
  std::map<std::string, int> rank_counts;  // number of ranks on the same cores, by machine
  for (const RankInfo& info : rank_infos) ++rank_counts[info.machine];
  for (std::size_t rank = 0; rank < rank_infos.size(); ++rank) {
    const RankInfo& info = rank_infos[rank];
    if (info.equal != rank_infos[0].equal)
      return cat("-rank ", rank, "'s World differs from rank 0's: ", first_difference(info.equal, rank_infos[0].equal));
    common_settings.cores = std::min(common_settings.cores, std::max(1, info.cores / rank_counts[info.machine]));
    if (info.memory > 0 && (common_settings.memory == 0 || info.memory < common_settings.memory))
      common_settings.memory = info.memory;
  }
  return cat("+", common_settings.print());
}

}  // namespace karez
