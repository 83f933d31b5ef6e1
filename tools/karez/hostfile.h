// Which hosts there are and how many ranks each takes, in the form of Open MPI's hostfiles.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

struct HostSlots {
  std::string name;  // as `ssh` takes it: "alpha", "me@10.0.0.7"
  int slots = 1;
};

// A line names a host: `alpha slots=4 max_slots=8  # comment`. Without slots it counts 1; a host that is named again
// gets so many more. `what` begins errors: the file's name.
std::vector<HostSlots> parse_hostfile(std::string_view text, const std::string& what);

// How many of the ranks each host takes: slot by slot in the order of the file. Throws where there are too few slots.
std::vector<int> deal_ranks(const std::vector<HostSlots>& hosts, int ranks);

}  // namespace karez::tools
