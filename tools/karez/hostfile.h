// Parses the hosts of a job and their slots, in the format of Open MPI's hostfiles.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

struct HostSlots {
  std::string name;  // as `ssh` accepts it: "alpha", "me@10.0.0.7"
  int slots = 1;
};

// Each line names a host: `alpha slots=4 max_slots=8  # comment`. The default is 1 slot; the slots of repeated hosts
// are added, and max_slots is ignored. Error messages begin with `file_name`.
std::vector<HostSlots> parse_hostfile(std::string_view text, const std::string& file_name);

// Returns the number of ranks of each host; hosts are filled in the order of the file. Throws if there are too few
// slots.
std::vector<int> deal_ranks(const std::vector<HostSlots>& hosts, int ranks);

}  // namespace karez::tools
