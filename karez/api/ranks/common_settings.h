// The settings on which all ranks of a world agree before any computation, and the settings that each rank sends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "karez/api/ranks/link_costs.h"
#include "karez/api/world_options.h"

namespace karez {

// Settings that all ranks of a world share.
struct CommonSettings {
  int cores = 1;            // the smallest number of cores of any rank; ranks on the same CPUs share them
  std::int64_t memory = 0;  // the smallest memory limit per device of any rank; 0 if no rank has a limit
  RankTopology topology;
  std::string costs;  // the cost table of rank 0
  std::string print() const;
  static CommonSettings parse(std::string_view text);
};

// The settings of one rank.
struct RankInfo {
  std::string equal;    // lines that must be equal on all ranks
  std::string machine;  // the machine and the CPUs on which the rank runs; ranks on one host may share CPUs
  std::string host;
  int cores = 1;
  std::int64_t memory = 0;  // limit per device; 0 means no limit

  std::string print() const;
  static RankInfo parse(const std::string& text);
};

// Returns the lines that must be equal on all ranks; `versions` lists the versions of this rank's libraries, one per
// line.
std::string options_to_match(const WorldOptions& options, const std::string& versions);

// Returns the decision of rank 0: '+' followed by the common settings, or '-' followed by an error message if lines
// that must be equal differ. WorldRanks adds two decisions: '!' if a rank has stopped, and '?' if a rank has not
// joined.
std::string decide(const std::vector<RankInfo>& rank_infos, std::string costs, std::string link);

}  // namespace karez
