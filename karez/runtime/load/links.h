// The endpoints of a plan's communicators: links within this rank, and to other ranks with which a collective exchanges
// bytes.
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

// The collective of an actor, as its member runs it.
comm::CollectiveSpec spec_of(const Plan& plan, const Actor& actor);
// The same, but fails if the collective's boxes do not match its tensors, or if the plan gives it too little staging
// memory.
comm::CollectiveSpec checked_spec(const Plan& plan, const Actor& actor);

// Creates one end of a link to another rank. Both ends give the same name, which no other link between the two
// processes has.
using ConnectRank =
    std::function<std::unique_ptr<comm::Link>(int rank, const std::string& name, comm::Notifier& notifier)>;

// Returns the hubs by communicator; null if this rank's devices run no collective of the communicator. A member on
// another rank without a `connect` is an error.
// The name of a link consists of data that is equal on all ranks: the communicator's members and sequence and the two
// members that it connects, never numbers of one plan. Members that exchange no bytes in any collective of the sequence
// have no link.
ById<CommunicatorId, std::unique_ptr<comm::LocalHub>> link_members(const Plan& plan, const ConnectRank& connect);

// The exchange of a plan's collectives with one other rank over one link: the two members, then for each turn the bytes
// of its messages in order. The text is equal on both ranks if their plans match.
struct Exchange {
  int rank = 0;  // the other rank
  std::string text;
};
std::vector<Exchange> exchanges_of(const Plan& plan);

// Over all ranks these add up to 0 if any two ranks have the same text for their exchanges.
std::uint64_t sum_of(int rank, const std::vector<Exchange>& exchanges);

}  // namespace karez::runtime
