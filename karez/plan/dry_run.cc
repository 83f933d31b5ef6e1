// Runs a launch without data, with every actor's ports, one ready queue, and messages that arrive immediately.
#include "karez/plan/dry_run.h"

#include <algorithm>
#include <utility>

#include "karez/plan/collective_sequence.h"
#include "karez/plan/ports.h"
#include "karez/plan/ready_queue.h"
#include "karez/plan/waits.h"

namespace karez::plan {
namespace {

class Runner {
 public:
  Runner(const Plan& plan, bool with_turns)
      : plan_(plan),
        with_turns_(with_turns),
        sequence_(plan),
        arrived_(static_cast<std::size_t>(sequence_.groups())),
        port_numbers_(plan),
        session_start_(Ports::session_start(plan, port_numbers_)),
        session_done_(Ports::session_done(plan, port_numbers_)) {
    std::vector<ActorId> all_actors;
    for (ActorId a : plan.actors.ids()) {
      all_actors.push_back(a);
      ports_.emplace_back(plan, a, port_numbers_);
    }
    order_ = priority_order(plan, all_actors);
    place_.resize(all_actors.size());
    for (std::size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = static_cast<int>(i);
    ready_ = ReadyQueue(static_cast<int>(order_.size()));
    for (ActorId a : all_actors) consider(a);
  }

  DryRun launch() {
    require(session_start_.output_count() > 0 && session_done_.input_count() > 0, "plan '", plan_.name,
            "': a start register and a done register are required");
    session_start_.begin();
    session_start_.complete([&](const Message& m) { deliver(m); });
    while (!ready_.empty()) act(order_[ready_.pop()]);
    if (!session_done_.ready()) fail_stalled();
    session_done_.begin();
    session_done_.complete([&](const Message& m) { deliver(m); });
    while (!ready_.empty()) act(order_[ready_.pop()]);
    return std::move(run_);
  }

 private:
  void consider(ActorId a) {
    if (!ports_[a].ready() || ready_.has(place_[a]) || (with_turns_ && !sequence_.may_begin(a))) return;
    ready_.insert(place_[a]);
  }
  void deliver(const Message& m) {
    ++run_.messages;
    if (m.to == session_actor) {
      (m.kind == Message::Kind::filled ? session_done_ : session_start_).take(m);
    } else {
      if (ports_[m.to].take(m)) consider(m.to);
    }
  }
  void act(ActorId a) {
    ports_[a].begin();
    if (!with_turns_ || !plan_.actor(a).collective) return complete(a);
    sequence_.position(a).begin(a);
    auto& arrived = arrived_[sequence_.group_number(a)];  // the members of one collective act together
    arrived.push_back(a);
    if (arrived.size() < sequence_.members(a).size()) return;
    for (ActorId member : std::exchange(arrived, {})) {
      SequencePosition& position = sequence_.position(member);
      position.end();
      complete(member);
      consider(position.due());
    }
  }
  void complete(ActorId a) {
    run_.order.push_back(a);
    ports_[a].complete([&](const Message& m) { deliver(m); });
    consider(a);
  }

  [[noreturn]] void fail_stalled() {
    std::vector<Wait> waits;
    for (ActorId a : ports_.ids()) {
      for (Wait& wait : waits_of(plan_, a, ports_[a])) waits.push_back(std::move(wait));
      if (!plan_.actor(a).collective) continue;
      const Collective& c = *plan_.actor(a).collective;
      if (ports_[a].acts() >= static_cast<std::int64_t>(c.turns.size())) continue;
      const int turn = c.turns[static_cast<std::size_t>(ports_[a].acts())];
      if (ports_[a].running()) {
        for (ActorId b : sequence_.members(a))
          if (!ports_[b].running()) waits.push_back({a, b, cat("turn ", turn, " of communicator ", c.communicator)});
      } else if (ports_[a].ready() && sequence_.position(a).due() != a) {
        const SequencePosition& position = sequence_.position(a);
        waits.push_back({a, position.due(), cat("turn ", position.turn, " of communicator ", c.communicator)});
      }
    }
    std::string cycle = cycle_text(plan_, waits);
    fail("plan '", plan_.name, "' stalls", cycle.empty() ? "" : ": " + cycle, "\n", print(plan_, waits));
  }

  const Plan& plan_;
  bool with_turns_;
  CollectiveSequence sequence_;
  std::vector<std::vector<ActorId>> arrived_;  // by group
  PortNumbers port_numbers_;
  ById<ActorId, Ports> ports_;
  Ports session_start_, session_done_;
  std::vector<ActorId> order_;
  ById<ActorId, int> place_;
  ReadyQueue ready_;
  DryRun run_;
};

}  // namespace

DryRun dry_run(const Plan& plan, bool turns) { return Runner(plan, turns).launch(); }

}  // namespace karez::plan
