// Runs a discrete-event simulation of a plan, with ports, ready queues and turns as in the engine.
#include "karez/runtime/simulator.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

#include "karez/base/philox.h"
#include "karez/plan/acts.h"
#include "karez/plan/collective_sequence.h"
#include "karez/plan/ready_queue.h"
#include "karez/plan/waits.h"

namespace karez::runtime {
namespace {

struct SimulatedEvent {
  double time = 0;
  std::uint64_t order = 0;  // the number of the event; orders events of equal time
  enum class Kind { message, ended } kind = Kind::message;
  Message message;
  ActorId actor;
  bool operator<(const SimulatedEvent& other) const {
    return time != other.time ? time > other.time : order > other.order;
  }  // earliest on top
};

// The ready actors of one worker, and whether it is busy.
struct SimulatedWorker {
  std::vector<ActorId> order;
  ReadyQueue ready;
  char busy = 0;
};

// The actors that use a slot. They are tracked independently of the ports, in order to check them.
struct SlotState {
  bool writing = false;
  std::vector<ActorId> readers;  // consumers that were notified and have not returned the slot
};

class Simulator {
 public:
  Simulator(const Plan& plan, const SimulationOptions& options)
      : plan_(plan),
        options_(options),
        session_start_(Ports::session_start(plan)),
        session_done_(Ports::session_done(plan)),
        sequence_(plan),
        arrived_(static_cast<std::size_t>(sequence_.groups())),
        acts_due_(acts_per_launch(plan)) {
    int workers = options.workers;
    for (const Stream& s : plan.streams)
      if (options.workers == 0) workers = std::max(workers, s.worker + 1);
    workers_.resize(static_cast<std::size_t>(std::max(workers, 1)));
    result_.events.resize(workers_.size());
    const PortNumbers places(plan);
    for (ActorId a : plan.actors.ids()) {
      ports_.emplace_back(plan, a, places);
      worker_.push_back(plan.stream(plan.actor(a).stream).worker % static_cast<int>(workers_.size()));
      workers_[worker_.back()].order.push_back(a);
    }
    position_.resize(ports_.size());
    for (SimulatedWorker& w : workers_) {
      w.order = priority_order(plan, w.order);
      w.ready = ReadyQueue(static_cast<int>(w.order.size()));
      for (std::size_t p = 0; p < w.order.size(); ++p) position_[w.order[p]] = static_cast<int>(p);
    }
    stream_busy_.resize(plan.streams.size());
    slot_states_.resize(plan.registers.size());
    for (RegisterId r : plan.registers.ids()) slot_states_[r].resize(static_cast<std::size_t>(plan.registers[r].slots));
    began_.resize(ports_.size());
    in_use_.resize(plan.registers.size());
    result_.peak_slots.resize(plan.registers.size());
  }

  Simulation run() {
    for (ActorId a : ports_.ids())
      if (ports_[a].ready()) schedule(a);
    for (int launch = 0; launch < options_.launches; ++launch) {
      while (!session_start_.ready()) step();
      ++ticket_;
      record(session_actor, EventKind::launch_began, 0);
      session_start_.begin();
      for (int o = 0; o < session_start_.output_count(); ++o)
        take_slot(session_start_.output_register(o), session_start_.output_slot(o));
      session_start_.complete([&](const Message& m) { send(session_actor, m); });
      while (!session_done_.ready()) step();
      record(session_actor, EventKind::launch_ended, 0);
      session_done_.begin();
      session_done_.complete([&](const Message& m) { send(session_actor, m); });
    }
    result_.makespan = now_;
    for (begin_ready(); !events_.empty(); begin_ready()) next_event();
    check_tokens_returned();
    return std::move(result_);
  }

 private:
  bool may_begin(ActorId a) const { return !options_.ordered_collectives || sequence_.may_begin(a); }

  // Returns the next pseudo-random number in [0, 1).
  double random_unit() { return unit_double(philox_word(options_.seed, 0, random_numbers_++)); }

  void add(SimulatedEvent event, double time) {
    event.time = time;
    event.order = events_created_++;
    events_.push(event);
  }
  int worker_of(ActorId a) const { return a == session_actor ? 0 : worker_[a]; }

  Event event_of(EventKind kind, ActorId actor, std::int64_t piece) const {
    Event event;
    event.time = static_cast<std::int64_t>(now_ * 1e9);
    event.ticket = ticket_;
    event.piece = static_cast<std::uint32_t>(piece);
    event.plan = 0;
    event.actor = actor;
    event.kind = kind;
    return event;
  }
  void record(ActorId actor, EventKind kind, std::int64_t act) {
    result_.events[worker_of(actor)].events.push_back(event_of(kind, actor, act));
  }
  void record(int worker, EventKind kind, const Message& m) {
    Event event = event_of(kind, m.to, m.piece);
    event.reg = m.reg;
    event.slot = m.slot;
    event.message = m.kind;
    result_.events[worker].events.push_back(event);
  }

  void send(ActorId from, const Message& m) {
    ++result_.messages;
    record(worker_of(from), EventKind::posted, m);
    int times = options_.inject_fault ? options_.inject_fault(m) : 1;
    for (int i = 0; i < times; ++i) {
      SimulatedEvent event;
      event.message = m;
      int a = worker_of(from), b = worker_of(m.to);
      double& last = last_arrival_[{a, b}];  // messages between two workers keep their order
      if (a != b && options_.delay > 0) last = std::max(last, now_ + options_.delay * random_unit());
      else last = std::max(last, now_);
      add(event, last);
    }
    SlotState& slot = slot_states_[m.reg][m.slot];
    if (m.kind == Message::Kind::filled) {
      slot.writing = false;
      slot.readers.push_back(m.to);
    } else {
      auto at = std::find(slot.readers.begin(), slot.readers.end(), from);
      require(at != slot.readers.end(), "simulator: ", actor_name(plan_, from), " returns slot ", m.slot, " of r",
              m.reg, ", which it is not reading");
      slot.readers.erase(at);
      if (slot.readers.empty()) use(m.reg, m.slot, -1);
    }
  }

  void use(RegisterId reg, int slot, int slots) {
    result_.peak_slots[reg] = std::max(result_.peak_slots[reg], in_use_[reg] += slots);
    if (plan_.reg(reg).block.valid()) result_.slots.push_back({reg, slot, slots > 0});
  }
  void take_slot(RegisterId reg, int number) {
    SlotState& slot = slot_states_[reg][number];
    require(!slot.writing && slot.readers.empty(), "simulator: slot ", number, " of r", reg,
            " is overwritten while it is in use");
    slot.writing = true;
    use(reg, number, 1);
  }

  void schedule(ActorId a) {
    if (!may_begin(a)) return;
    workers_[worker_of(a)].ready.insert(position_[a]);
  }

  // Starts the most urgent ready actor of every free worker. Actors on a busy stream stay ready.
  void begin_ready() {
    for (SimulatedWorker& worker : workers_) {
      std::vector<int> blocked;
      while (!worker.ready.empty() && !worker.busy) {
        int place = worker.ready.pop();
        ActorId a = worker.order[place];
        if (stream_busy_[plan_.actor(a).stream]) blocked.push_back(place);
        else begin(a, worker);
      }
      for (int place : blocked) worker.ready.insert(place);
    }
  }

  void begin(ActorId a, SimulatedWorker& worker) {
    Ports& ports = ports_[a];
    ports.begin();
    began_[a] = now_;
    record(a, EventKind::began, ports.acts());
    for (int i = 0; i < ports.input_count(); ++i) {
      const SlotState& slot = slot_states_[ports.input_register(i)][ports.input_slot(i)];
      require(std::count(slot.readers.begin(), slot.readers.end(), a) == 1, "simulator: ", actor_name(plan_, a),
              " reads slot ", ports.input_slot(i), " of r", ports.input_register(i), ", which it has not received");
    }
    for (int o = 0; o < ports.output_count(); ++o)
      if (ports.first_of_period(o)) take_slot(ports.output_register(o), ports.output_slot(o));
    if (plan_.actor(a).collective) {
      if (options_.ordered_collectives) sequence_.position(a).begin(a);
      auto& arrived_members = arrived_[sequence_.group_number(a)];
      arrived_members.push_back(a);
      if (arrived_members.size() < sequence_.members(a).size()) return;
      for (ActorId member : std::exchange(arrived_members, {})) end_later(member);
      return;
    }
    if (options_.occupancy == Occupancy::worker) worker.busy = 1;
    else stream_busy_[plan_.actor(a).stream] = 1;
    end_later(a);
  }

  void end_later(ActorId a) {
    SimulatedEvent event;
    event.kind = SimulatedEvent::Kind::ended;
    event.actor = a;
    double duration = options_.duration ? options_.duration(a, ports_[a].acts()) : 1.0;
    require(duration >= 0, "simulator: an act of ", actor_name(plan_, a), " has the negative duration ", duration);
    add(event, now_ + duration);
  }

  void step() {
    begin_ready();
    if (events_.empty()) fail_stalled();
    do next_event();  // handles all events of this time before any worker begins an act
    while (!events_.empty() && events_.top().time == now_);
  }

  void next_event() {
    SimulatedEvent event = events_.top();
    events_.pop();
    now_ = event.time;
    if (event.kind == SimulatedEvent::Kind::ended) return end(event.actor);
    const Message& m = event.message;
    record(worker_of(m.to), EventKind::taken, m);
    if (m.to == session_actor) {
      (m.kind == Message::Kind::filled ? session_done_ : session_start_).take(m);
    } else if (ports_[m.to].take(m)) {
      schedule(m.to);
    }
  }

  void end(ActorId a) {
    Ports& ports = ports_[a];
    result_.acts.push_back({a, ports.acts(), began_[a], now_});
    record(a, EventKind::ended, ports.acts());
    const bool collective = plan_.actor(a).collective.has_value(), in_turn = collective && options_.ordered_collectives;
    if (in_turn) sequence_.position(a).end();
    if (!collective)
      (options_.occupancy == Occupancy::worker ? workers_[worker_of(a)].busy : stream_busy_[plan_.actor(a).stream]) = 0;
    ports.complete([&](const Message& m) { send(a, m); });
    if (ports.ready()) schedule(a);
    if (!in_turn) return;
    ActorId next = sequence_.position(a).due();
    if (next != a && ports_[next].ready() && !workers_[worker_of(next)].ready.has(position_[next])) schedule(next);
  }

  // Checks that every token has been returned, except those of actors without inputs, which may act ahead of a launch.
  // Checks both the slot states, which change when a message is sent, and the ports, which change when it arrives.
  void check_tokens_returned() {
    require(session_start_.ready(), "simulator: a slot of a start register was not returned");
    for (ActorId i : ports_.ids()) {
      const Ports& ports = ports_[i];
      const std::string name = actor_name(plan_, i);
      require(!ports.running(), "simulator: ", name, " never ends");
      std::int64_t due = acts_due_[i] * options_.launches, ahead = ports.acts() - due;
      bool eager = ports.input_count() == 0;
      require(ahead == 0 || eager, "simulator: ", name, " acted ", ports.acts(), " times instead of ", due);
    }
    for (RegisterId r : slot_states_.ids()) {
      ActorId producer = plan_.registers[r].producer;
      if (producer != session_actor && ports_[producer].input_count() == 0) continue;
      for (const SlotState& slot : slot_states_[r])
        require(!slot.writing && slot.readers.empty(), "simulator: a slot of r", r, " was not returned");
    }
    for (ActorId i : ports_.ids()) {
      const Ports& ports = ports_[i];
      if (ports.input_count() == 0) continue;
      for (int o = 0; o < ports.output_count(); ++o) {
        int slots = plan_.reg(ports.output_register(o)).slots;
        require(ports.free_slots(o) == slots, "simulator: ", actor_name(plan_, i), " has ", ports.free_slots(o),
                " free slots of r", ports.output_register(o), " at the end instead of ", slots, ": a message was lost");
      }
    }
  }

  [[noreturn]] void fail_stalled() {
    std::vector<Wait> waits;
    for (ActorId a : ports_.ids()) {
      for (Wait& wait : waits_of(plan_, a, ports_[a])) waits.push_back(std::move(wait));
      if (!plan_.actor(a).collective) continue;
      const Collective& c = *plan_.actor(a).collective;
      const int turn = c.turns[static_cast<std::size_t>(ports_[a].acts()) % c.turns.size()];
      if (ports_[a].running()) {
        for (ActorId b : sequence_.members(a))
          if (!ports_[b].running())
            waits.push_back({a, b, cat("its part of turn ", turn, " of communicator ", c.communicator)});
      } else if (ports_[a].ready() && options_.ordered_collectives && sequence_.position(a).due() != a) {
        const SequencePosition& position = sequence_.position(a);
        waits.push_back({a, position.due(), cat("turn ", position.turn, " of communicator ", c.communicator)});
      }
    }
    for (int i = 0; i < session_done_.input_count(); ++i)
      if (session_done_.filled(i) == 0)
        waits.push_back(
            {session_actor, session_done_.producer(i), cat("r", session_done_.input_register(i), " to be filled")});
    std::string cycle = cycle_text(plan_, waits);
    fail("simulator: plan '", plan_.name, "' stalls at ", now_, cycle.empty() ? "" : ": " + cycle, "\n",
         print(plan_, waits));
  }

  const Plan& plan_;
  const SimulationOptions& options_;
  ById<ActorId, Ports> ports_;
  Ports session_start_, session_done_;
  CollectiveSequence sequence_;
  std::vector<std::vector<ActorId>> arrived_;  // by group
  ById<ActorId, std::int64_t> acts_due_;
  std::vector<SimulatedWorker> workers_;
  ById<ActorId, int> worker_, position_;
  ById<StreamId, char> stream_busy_;
  std::priority_queue<SimulatedEvent> events_;
  std::map<std::pair<int, int>, double> last_arrival_;
  ById<RegisterId, std::vector<SlotState>> slot_states_;
  ById<ActorId, double> began_;
  ById<RegisterId, int> in_use_;
  double now_ = 0;
  std::uint32_t ticket_ = 0;
  std::uint64_t events_created_ = 0, random_numbers_ = 0;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Plan& plan, const SimulationOptions& options) { return Simulator(plan, options).run(); }

}  // namespace karez::runtime
