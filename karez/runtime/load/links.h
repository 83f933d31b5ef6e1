// The endpoints of a plan's communicators. Each has links to the members on this rank, and to the members on other
// ranks with which it exchanges bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "karez/comm/collective/collective.h"
#include "karez/comm/transport/local_hub.h"
#include "karez/plan/plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Returns the specification of an actor's collective for the member that the actor runs.
comm::CollectiveSpec spec_of(const Plan& plan, const Actor& actor);
// The same, but throws if the collective's boxes do not match its tensors, or if the plan gives it too little staging
// memory.
comm::CollectiveSpec checked_spec(const Plan& plan, const Actor& actor);

// Creates one end of a link to another rank. Both ends pass the same name, which is unique among the links between the
// two processes.
using ConnectRank =
    std::function<std::unique_ptr<comm::Link>(int rank, const std::string& name, comm::Notifier& notifier)>;

// Returns the hubs by communicator; null if this rank's devices run no collective of the communicator. Throws if a
// member is on another rank and `connect` is null.
//
// The name of a link consists of data that is equal on all ranks: the communicator's members and sequence, and the two
// members that it connects. It contains no numbers that are specific to one rank's plan. Members that exchange no bytes
// in any collective of the sequence have no link.
ById<CommunicatorId, std::unique_ptr<comm::LocalHub>> link_members(const Plan& plan, const ConnectRank& connect);

// The messages of a plan's collectives over one link to another rank. The text lists the two members and, for each
// turn, the bytes of its messages in order. It is equal on both ranks if their plans match.
struct Exchange {
  int rank = 0;  // the other rank
  std::string text;
};
std::vector<Exchange> exchanges_of(const Plan& plan);

// Returns a number for the exchanges of a rank. The numbers of all ranks add up to 0 if, for every link, both ranks
// have the same text.
std::uint64_t sum_of(int rank, const std::vector<Exchange>& exchanges);

}  // namespace karez::runtime
