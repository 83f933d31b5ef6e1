// Creates the endpoints of communicators, and describes the messages between ranks.
#include "karez/runtime/load/links.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "karez/base/hash.h"
#include "karez/base/text.h"
#include "karez/comm/collective/collective_check.h"
#include "karez/comm/collective/collective_counts.h"
#include "karez/runtime/actor/reduce.h"
#include "karez/runtime/load/loaded_plan.h"

namespace karez::runtime {
namespace {

const PlanDevice& device_of(const Plan& plan, const Actor& actor) {
  return plan.devices[plan.stream(actor.stream).device];
}

int member_of(const Communicator& group, const PlanDevice& device) {
  return static_cast<int>(std::find(group.members.begin(), group.members.end(), device) - group.members.begin());
}

bool is_on_this_rank(const Plan& plan, const PlanDevice& device) {
  return std::find(plan.devices.begin(), plan.devices.end(), device) != plan.devices.end();
}

// Returns a name that is equal on all ranks and different for every communicator of a program, because no two
// communicators move the same values among the same devices.
std::string communicator_name(const Communicator& group) {
  return cat(join(group.members, " ", [](const PlanDevice& member) { return device_name(member); }), ": ",
             join(group.sequence, ", "));
}

class LinkBuilder {
 public:
  LinkBuilder(const Plan& plan, const ConnectRank& connect)
      : plan_(plan),
        connect_(connect),
        peers_(plan.communicators.size()) {}

  ById<CommunicatorId, std::unique_ptr<comm::LocalHub>> run() {
    ById<CommunicatorId, std::unique_ptr<comm::LocalHub>> hubs(plan_.communicators.size());
    for (const Actor& actor : plan_.actors)
      if (actor.collective) record_peers(actor);
    std::map<std::string, int> name_counts;
    for (CommunicatorId c : plan_.communicators.ids()) {
      const Communicator& group = plan_.communicators[c];
      const std::string name = cat(communicator_name(group), " #", name_counts[communicator_name(group)]++);
      if (peers_[c].empty()) continue;
      std::vector<int> local_members;
      for (const auto& [member, peers] : peers_[c]) local_members.push_back(member);
      hubs[c] = std::make_unique<comm::LocalHub>(static_cast<int>(group.members.size()), std::move(local_members));
      for (const auto& [member, peers] : peers_[c])
        for (int peer : peers) link(c, name, hubs[c]->endpoint(member), peer);
    }
    return hubs;
  }

 private:
  // Records the members on other ranks with which this member exchanges bytes.
  void record_peers(const Actor& actor) {
    const CommunicatorId c = actor.collective->communicator;
    const Communicator& group = plan_.communicators[c];
    std::set<int>& peers = peers_[c][member_of(group, device_of(plan_, actor))];
    if (std::all_of(group.members.begin(), group.members.end(),
                    [&](const PlanDevice& d) { return is_on_this_rank(plan_, d); }))
      return;
    for (int peer : comm::peers_of(spec_of(plan_, actor)))
      if (!is_on_this_rank(plan_, group.members[static_cast<std::size_t>(peer)])) peers.insert(peer);
  }

  void link(CommunicatorId c, const std::string& name, comm::Endpoint& endpoint, int peer) {
    const PlanDevice& peer_device = plan_.communicators[c].members[static_cast<std::size_t>(peer)];
    require(connect_ != nullptr, "communicator ", c, ": member ", device_name(peer_device),
            " is in another process, but this session has no peers");
    const int low = std::min(endpoint.member(), peer), high = std::max(endpoint.member(), peer);
    endpoint.connect(peer, connect_(peer_device.rank, cat(name, "\n", low, " ", high), endpoint.notifier()));
  }

  const Plan& plan_;
  const ConnectRank& connect_;
  ById<CommunicatorId, std::map<int, std::set<int>>> peers_;  // peers on other ranks, by member on this rank
};

}  // namespace

comm::CollectiveSpec spec_of(const Plan& plan, const Actor& actor) {
  const Collective& c = *actor.collective;
  const Communicator& group = plan.communicators[c.communicator];
  comm::CollectiveSpec spec;
  spec.kind = c.kind;
  spec.algorithm = c.algorithm;
  spec.members = static_cast<int>(group.members.size());
  spec.member = member_of(group, device_of(plan, actor));
  spec.chunk = group.chunk;
  spec.in = c.in.view;
  spec.out = c.out.view;
  for (const plan::PeerBox& p : c.sends) spec.sends.push_back({p.begin, p.size});
  for (const plan::PeerBox& p : c.receives) spec.receives.push_back({p.begin, p.size});
  if (c.reduce) spec.reduce = reduce_function(*c.reduce, c.in.view.dtype);
  return spec;
}

comm::CollectiveSpec checked_spec(const Plan& plan, const Actor& actor) {
  const Collective& c = *actor.collective;
  comm::CollectiveSpec spec = spec_of(plan, actor);
  comm::check(spec);
  const std::int64_t required = comm::staging_bytes(spec), provided = c.staging ? c.staging->view.bytes() : 0;
  require(required <= provided, "actor '", actor.name, "': ", c.kind, " of ", c.in.view, " among ", spec.members,
          " members needs ", required, " bytes of staging, but the plan gives ", provided);
  return spec;
}

ById<CommunicatorId, std::unique_ptr<comm::LocalHub>> link_members(const Plan& plan, const ConnectRank& connect) {
  return LinkBuilder(plan, connect).run();
}

namespace {

// Returns, for each member on another rank with which the actor's member exchanges bytes, the sizes of the messages of
// the collective: first those from the higher member to the lower, then those from the lower to the higher.
std::map<int, std::array<std::string, 2>> messages_elsewhere(const Plan& plan, const Actor& actor) {
  const Communicator& group = plan.communicators[actor.collective->communicator];
  std::map<int, std::array<std::string, 2>> out;
  if (std::all_of(group.members.begin(), group.members.end(),
                  [&](const PlanDevice& d) { return is_on_this_rank(plan, d); }))
    return out;
  const comm::CollectiveSpec spec = spec_of(plan, actor);
  for (const comm::PlannedMessage& message : comm::messages_of(spec)) {
    if (is_on_this_rank(plan, group.members[static_cast<std::size_t>(message.peer)])) continue;
    out[message.peer][message.sent == (spec.member < message.peer)] += cat(" ", message.bytes);
  }
  return out;
}

}  // namespace

std::vector<Exchange> exchanges_of(const Plan& plan) {
  std::map<std::tuple<CommunicatorId, int, int>, std::map<int, std::string>> lines;  // by link and turn
  for (const Actor& actor : plan.actors) {
    if (!actor.collective) continue;
    const Collective& c = *actor.collective;
    const Communicator& group = plan.communicators[c.communicator];
    const int member = member_of(group, device_of(plan, actor));
    for (const auto& [peer, bytes] : messages_elsewhere(plan, actor)) {
      auto name = [&](int of) { return device_name(group.members[static_cast<std::size_t>(of)]); };
      const std::string low = name(std::min(member, peer)), high = name(std::max(member, peer));
      for (int turn : c.turns)
        lines[{c.communicator, member, peer}][turn] =
            cat("turn ", turn, ", ", group.sequence[static_cast<std::size_t>(turn)], ": ", low, " to ", high, " bytes",
                bytes[1], "; ", high, " to ", low, " bytes", bytes[0], "\n");
    }
  }
  std::vector<Exchange> out;
  for (const auto& [link, turns] : lines) {
    const auto& [communicator, member, peer] = link;
    const Communicator& group = plan.communicators[communicator];
    Exchange& exchange = out.emplace_back(Exchange{group.members[static_cast<std::size_t>(peer)].rank, {}});
    exchange.text = cat("members ", std::min(member, peer), " and ", std::max(member, peer), " of ",
                        join(group.members, " ", [](const PlanDevice& device) { return device_name(device); }), ", ",
                        group.sequence.size(), " turns\n");
    for (const auto& [turn, line] : turns) exchange.text += line;
  }
  return out;
}

std::uint64_t sum_of(int rank, const std::vector<Exchange>& exchanges) {
  std::uint64_t sum = 0;
  for (const Exchange& exchange : exchanges)
    sum += rank < exchange.rank ? hash_text(exchange.text) : 0 - hash_text(exchange.text);
  return sum;
}

}  // namespace karez::runtime
