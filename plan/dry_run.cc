// A launch without data: every actor's ports, one ready queue, and messages that arrive at once.
#include "plan/dry_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/pick.h"
#include "plan/ports.h"
#include "plan/waits.h"

namespace karez::plan {
namespace {

// The members of one collective of one communicator that this plan holds; they act together.
struct Gathering {
  std::size_t members = 0;
  std::vector<ActorId> arrived;
};

class Runner {
 public:
  Runner(const Plan& plan, bool turns) : plan_(plan), turns_(turns), starter_(Ports::starter(plan)), ender_(Ports::ender(plan)) {
    std::vector<ActorId> all;
    for (std::size_t i = 0; i < plan.actors.size(); ++i) {
      all.emplace_back(i);
      ports_.emplace_back(plan, ActorId(i));
    }
    order_ = pick_order(plan, all);
    place_.resize(all.size());
    for (std::size_t i = 0; i < order_.size(); ++i) place_[order_[i].index] = static_cast<int>(i);
    ready_ = ReadyQueue(static_cast<int>(order_.size()));
    for (ActorId a : all) {
      if (turns_ && plan.actor(a).collective) ++gathering(a).members;
      consider(a);
    }
  }

  DryRun launch() {
    require(starter_.output_count() > 0 && ender_.input_count() > 0, "plan '", plan_.name, "': without a start and a done register nothing runs");
    starter_.begin();
    starter_.complete([&](const Message& m) { deliver(m); });
    while (!ready_.empty()) act(order_[ready_.pop()]);
    if (!ender_.ready()) fail_stalled();
    ender_.begin();
    ender_.complete([&](const Message& m) { deliver(m); });
    while (!ready_.empty()) act(order_[ready_.pop()]);
    return std::move(run_);
  }

 private:
  // Members of one gathering: same communicator, same turn.
  Gathering& gathering(ActorId a) {
    const Collective& c = *plan_.actor(a).collective;
    return gatherings_[{c.communicator, c.turn}];
  }
  // A member's turns so far, by communicator and device.
  int& turn(ActorId a) { return turn_[{plan_.actor(a).collective->communicator, plan_.stream(plan_.actor(a).stream).device}]; }

  void consider(ActorId a) {
    if (!ports_[a.index].ready() || ready_.has(place_[a.index]) ||
        (turns_ && plan_.actor(a).collective && turn(a) != plan_.actor(a).collective->turn))
      return;
    ready_.insert(place_[a.index]);
  }
  void deliver(const Message& m) {
    ++run_.messages;
    if (m.to == session_actor) {
      (m.kind == Message::Kind::filled ? ender_ : starter_).take(m);
    } else {
      if (ports_[m.to.index].take(m)) consider(m.to);
    }
  }
  void act(ActorId a) {
    ports_[a.index].begin();
    if (!turns_ || !plan_.actor(a).collective) return complete(a);
    Gathering& here = gathering(a);
    here.arrived.push_back(a);
    if (here.arrived.size() < here.members) return;
    for (ActorId member : std::exchange(here.arrived, {})) {
      const Collective& c = *plan_.actor(member).collective;
      auto length = plan_.communicators[c.communicator.index].sequence.size();
      turn(member) = (c.turn + 1) % static_cast<int>(std::max<std::size_t>(length, 1));
      complete(member);
      for (std::size_t i = 0; i < plan_.actors.size(); ++i)
        if (plan_.actors[i].collective && plan_.actors[i].collective->communicator == c.communicator) consider(ActorId(i));
    }
  }
  void complete(ActorId a) {
    run_.order.push_back(a);
    ports_[a.index].complete([&](const Message& m) { deliver(m); });
    consider(a);
  }

  [[noreturn]] void fail_stalled() {
    std::vector<Wait> waits;
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      ActorId a{static_cast<int>(i)};
      for (Wait& wait : waits_of(plan_, a, ports_[i])) waits.push_back(std::move(wait));
      if (!plan_.actor(a).collective || ports_[i].acts() > 0) continue;
      const Collective& c = *plan_.actor(a).collective;
      auto other = [&](bool same_device, int at_turn) {  // who should have acted
        for (std::size_t j = 0; j < ports_.size(); ++j) {
          const auto& d = plan_.actors[j].collective;
          bool same = plan_.stream(plan_.actors[j].stream).device == plan_.stream(plan_.actor(a).stream).device;
          if (d && d->communicator == c.communicator && d->turn == at_turn && same == same_device && !ports_[j].running() && i != j)
            waits.push_back({a, ActorId(j), cat("turn ", at_turn, " of communicator ", c.communicator)});
        }
      };
      if (ports_[i].running()) other(false, c.turn);
      else if (ports_[i].ready()) other(true, turn(a));
    }
    std::string circle = circle_of(plan_, waits);
    fail("plan '", plan_.name, "' stalls", circle.empty() ? "" : ": " + circle, "\n", print(plan_, waits));
  }

  const Plan& plan_;
  bool turns_;
  std::vector<Ports> ports_;
  Ports starter_, ender_;
  std::vector<ActorId> order_;
  std::vector<int> place_;
  ReadyQueue ready_;
  std::map<std::pair<CommunicatorId, int>, Gathering> gatherings_;
  std::map<std::pair<CommunicatorId, DeviceId>, int> turn_;
  DryRun run_;
};

}  // namespace

DryRun dry_run(const Plan& plan, bool turns) { return Runner(plan, turns).launch(); }

}  // namespace karez::plan
