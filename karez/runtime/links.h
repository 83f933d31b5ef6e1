// The endpoints of a plan's communicators: links within this rank, and to other ranks' processes where a collective
// exchanges bytes with them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "karez/comm/collective.h"
#include "karez/comm/local_hub.h"
#include "karez/plan/plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// One collective as its member runs it.
comm::CollectiveSpec spec_of(const Plan& plan, const Actor& actor);
// The same; an error where its pieces do not fit its tensors, or where the plan gives it less staging than it needs.
comm::CollectiveSpec checked_spec(const Plan& plan, const Actor& actor);

// Makes one end of a link to another rank. Both ends give the same name; no other link between the two processes has
// it.
using ConnectRank =
    std::function<std::unique_ptr<comm::Link>(int rank, const std::string& name, comm::Notifier& notifier)>;

// By communicator; none where this rank's devices run no collective of it. A member elsewhere without a `connect` is an
// error.
//
// A link is named by what all ranks agree on: the communicator's members and sequence and the two that it joins, never
// a plan's own numbers. Whoever exchanges no byte in any collective of the sequence has no link.
ById<CommunicatorId, std::unique_ptr<comm::LocalHub>> link_members(const Plan& plan, const ConnectRank& connect);

// What a plan's collectives exchange with one other rank over one link: who is joined, then for each collective in its
// turn the bytes of its messages in their order. Both ranks say the same where their plans agree.
struct Exchange {
  int rank = 0;  // the other
  std::string text;
};
std::vector<Exchange> exchanges_of(const Plan& plan);

// Over all ranks these add up to 0 where any two of them say the same of what they exchange.
std::uint64_t sum_of(int rank, const std::vector<Exchange>& exchanges);

}  // namespace karez::runtime
