// Builds the slot problem of a plan and finds its critical cycle.
#include "karez/report/critical_cycle.h"

#include <algorithm>
#include <limits>
#include <map>

#include "karez/plan/acts.h"
#include "karez/plan/collective_sequence.h"
#include "karez/runtime/simulator.h"

namespace karez::report {
namespace {

class Model {
 public:
  Model(const Plan& plan, const ById<ActorId, double>& seconds, bool overlap)
      : plan_(plan),
        seconds_(seconds),
        overlap_(overlap),
        acts_(acts_per_launch(plan)),
        sequence_(plan) {}

  CriticalCycle run() {
    add_actors();
    add_registers();
    add_workers();
    add_sequences();
    SlotLimits limits;
    limits.acts = std::numeric_limits<std::int32_t>::max();
    out_.cycle = interval_of(problem_, slots_, limits);
    return std::move(out_);
  }

 private:
  void add_actors() {
    number_.resize(plan_.actors.size(), -1);
    for (ActorId a : plan_.actors.ids()) {
      if (number_[a] >= 0) continue;
      std::vector<ActorId> collective_members = {a};
      if (plan_.actor(a).collective) collective_members = sequence_.members(a);
      double longest = 0;
      for (ActorId member : collective_members)
        number_[member] = static_cast<int>(out_.actors.size()), longest = std::max(longest, seconds_[member]);
      problem_.actors.push_back({longest, static_cast<int>(acts_[a])});
      out_.actors.push_back(std::move(collective_members));
    }
    arrivals_.resize(plan_.actors.size(), -1);
    for (ActorId a : plan_.actors.ids()) {
      if (!plan_.actor(a).collective) continue;
      arrivals_[a] = static_cast<int>(out_.actors.size());
      problem_.actors.push_back({0, static_cast<int>(acts_[a])});
      out_.actors.push_back({a});
      problem_.registers.push_back({arrivals_[a], {{number_[a]}}});
      out_.registers.emplace_back();
      slots_.push_back(1);
    }
    session_ = static_cast<int>(out_.actors.size());
    problem_.actors.push_back({0, 1});
    out_.actors.emplace_back();
  }

  int number_of(ActorId actor) const { return actor == session_actor ? session_ : number_[actor]; }
  static int period_of(const Plan& plan, ActorId actor, RegisterId reg, bool output) {
    if (actor == session_actor) return 1;
    for (const Port& port : output ? plan.actor(actor).outputs : plan.actor(actor).inputs)
      if (port.reg == reg) return port.period;
    return 1;
  }

  void add_registers() {
    for (RegisterId r : plan_.registers.ids()) {
      const Register& reg = plan_.registers[r];
      if (overlap_ && reg.producer == session_actor) continue;
      SlotProblem::Register slot_register;
      slot_register.producer = number_of(reg.producer);
      slot_register.period = period_of(plan_, reg.producer, r, true);
      slot_register.min_slots = slot_register.max_slots = reg.slots;
      slot_register.filled = reg.producer == session_actor ? 1 : 0;  // the first launch has begun
      for (ActorId consumer : reg.consumers) {
        const int number = number_of(consumer);
        if (overlap_ && consumer == session_actor) continue;
        if (std::any_of(slot_register.consumers.begin(), slot_register.consumers.end(),
                        [&](const auto& other) { return other.actor == number; }))
          continue;
        slot_register.consumers.push_back({number, period_of(plan_, consumer, r, false)});
        if (consumer != session_actor && arrivals_[consumer] >= 0)
          slot_register.consumers.push_back({arrivals_[consumer], slot_register.consumers.back().period});
      }
      if (slot_register.consumers.empty()) continue;
      problem_.registers.push_back(std::move(slot_register));
      out_.registers.push_back(r);
      slots_.push_back(reg.slots);
    }
  }

  void add_workers() {
    SimulationOptions options;
    options.duration = [&](ActorId actor, std::int64_t) { return seconds_[actor]; };
    const Simulation launch = simulate(plan_, options);
    for (std::size_t worker = 0; worker < launch.events.size(); ++worker) {
      SlotProblem::Stream stream;
      for (const Event& event : launch.events[worker].events) {
        if (event.kind != EventKind::began || event.piece >= acts_[event.actor])
          continue;  // actors without inputs run ahead
        stream.order.push_back(
            {arrivals_[event.actor] >= 0 ? arrivals_[event.actor] : number_[event.actor], event.piece});
      }
      if (stream.order.empty()) continue;
      problem_.streams.push_back(std::move(stream));
      out_.streams.push_back(cat("worker ", worker));
    }
  }

  void add_sequences() {
    std::map<std::vector<int>, std::string> known_orders;  // all devices of a communicator have the same order
    for (ActorId a : plan_.actors.ids()) {
      if (!plan_.actor(a).collective) continue;
      const SequencePosition& position = sequence_.position(a);
      std::vector<int> order;
      for (ActorId turn_actor : position.order) order.push_back(number_[turn_actor]);
      if (!known_orders.emplace(order, "").second) continue;
      SlotProblem::Stream stream;
      std::map<int, int> acts;  // by actor: the number of acts with an earlier turn
      for (int actor : order) stream.order.push_back({actor, acts[actor]++});
      problem_.streams.push_back(std::move(stream));
      out_.streams.push_back(cat("turns of communicator ", position.communicator));
    }
  }

  const Plan& plan_;
  const ById<ActorId, double>& seconds_;
  const bool overlap_;
  ById<ActorId, std::int64_t> acts_;
  CollectiveSequence sequence_;
  SlotProblem problem_;
  std::vector<int> slots_;
  ById<ActorId, int> number_;    // the number of each actor; the members of a collective share one
  ById<ActorId, int> arrivals_;  // for a member of a collective: the number of an actor without duration that
                                 // represents the start by its worker
  int session_ = 0;
  CriticalCycle out_;
};

}  // namespace

CriticalCycle critical_cycle(const Plan& plan, const ById<ActorId, double>& seconds, bool overlap) {
  return Model(plan, seconds, overlap).run();
}

}  // namespace karez::report
