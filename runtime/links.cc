// Endpoints of communicators.
#include "runtime/links.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "runtime/loaded.h"
#include "runtime/reduce.h"

namespace karez::runtime {
namespace {

const PlanDevice& device_of(const Plan& plan, const Actor& actor) { return plan.devices[plan.stream(actor.stream).device]; }

int member_of(const Communicator& group, const PlanDevice& device) {
  return static_cast<int>(std::find(group.members.begin(), group.members.end(), device) - group.members.begin());
}

bool is_here(const Plan& plan, const PlanDevice& device) { return std::find(plan.devices.begin(), plan.devices.end(), device) != plan.devices.end(); }

// The same on all ranks, and another one's for every communicator of a program: no two move the same values among the same devices.
std::string identity_of(const Communicator& group) {
  return cat(join(group.members, " ", [](const PlanDevice& member) { return device_name(member); }), ": ", join(group.sequence, ", "));
}

class Linking {
 public:
  Linking(const Plan& plan, const ConnectRank& connect) : plan_(plan), connect_(connect), peers_(plan.communicators.size()) {}

  ById<CommunicatorId, std::unique_ptr<comm::LocalHub>> run() {
    ById<CommunicatorId, std::unique_ptr<comm::LocalHub>> hubs(plan_.communicators.size());
    for (const Actor& actor : plan_.actors)
      if (actor.collective) note(actor);
    std::map<std::string, int> named;
    for (CommunicatorId c : plan_.communicators.ids()) {
      const Communicator& group = plan_.communicators[c];
      const std::string name = cat(identity_of(group), " #", named[identity_of(group)]++);
      if (peers_[c].empty()) continue;
      std::vector<int> here;
      for (const auto& [member, peers] : peers_[c]) here.push_back(member);
      hubs[c] = std::make_unique<comm::LocalHub>(static_cast<int>(group.members.size()), std::move(here));
      for (const auto& [member, peers] : peers_[c])
        for (int peer : peers) link(c, name, hubs[c]->endpoint(member), peer);
    }
    return hubs;
  }

 private:
  // With which members elsewhere this one exchanges bytes.
  void note(const Actor& actor) {
    const CommunicatorId c = actor.collective->communicator;
    const Communicator& group = plan_.communicators[c];
    std::set<int>& peers = peers_[c][member_of(group, device_of(plan_, actor))];
    if (std::all_of(group.members.begin(), group.members.end(), [&](const PlanDevice& d) { return is_here(plan_, d); })) return;
    for (int peer : comm::peers_of(spec_of(plan_, actor)))
      if (!is_here(plan_, group.members[static_cast<std::size_t>(peer)])) peers.insert(peer);
  }

  void link(CommunicatorId c, const std::string& name, comm::Endpoint& endpoint, int peer) {
    const PlanDevice& there = plan_.communicators[c].members[static_cast<std::size_t>(peer)];
    require(connect_ != nullptr, "communicator ", c, ": member ", device_name(there), " is in another process, and this session knows of none");
    const int low = std::min(endpoint.member(), peer), high = std::max(endpoint.member(), peer);
    endpoint.connect(peer, connect_(there.rank, cat(name, "\n", low, " ", high), endpoint.bell()));
  }

  const Plan& plan_;
  const ConnectRank& connect_;
  ById<CommunicatorId, std::map<int, std::set<int>>> peers_;  // of each member here
};

}  // namespace

comm::CollectiveSpec spec_of(const Plan& plan, const Actor& actor) {
  const Collective& c = *actor.collective;
  const Communicator& group = plan.communicators[c.communicator];
  comm::CollectiveSpec spec;
  spec.kind = comm::kind_from(c.kind);
  spec.algorithm = comm::algorithm_from(c.algorithm);
  spec.members = static_cast<int>(group.members.size());
  spec.member = member_of(group, device_of(plan, actor));
  spec.chunk = group.chunk;
  spec.in = c.in.view;
  spec.out = c.out.view;
  for (const plan::Piece& p : c.sends) spec.sends.push_back({p.begin, p.size});
  for (const plan::Piece& p : c.receives) spec.receives.push_back({p.begin, p.size});
  spec.reduce = reduce_function(c.reduce, c.in.view.dtype);
  return spec;
}

ById<CommunicatorId, std::unique_ptr<comm::LocalHub>> link_members(const Plan& plan, const ConnectRank& connect) {
  return Linking(plan, connect).run();
}

}  // namespace karez::runtime
