// Replays event logs. The tokens of an actor are counted by the entries of the worker that serves the actor.
#include "karez/runtime/worker/test_protocol_check.h"

#include <algorithm>
#include <map>
#include <utility>

#include "karez/base/error.h"

namespace karez::runtime {
namespace {

struct InputTokens {
  RegisterId reg;
  int period = 1, phase = 0, filled_slots = 0;
  std::uint32_t piece = 0;  // the next expected piece
};
struct OutputTokens {
  RegisterId reg;
  int period = 1, phase = 0, free_slots = 0;
  std::uint32_t piece = 0;
  std::vector<int> readers;  // by slot: the number of consumers that have not returned the slot yet
};
struct Tokens {
  std::vector<InputTokens> in;
  std::vector<OutputTokens> out;
  bool acting = false;
  std::uint32_t acts = 0;
};

class Replay {
 public:
  Replay(const Plan& plan, std::int32_t number) : plan_(plan), number_(number), tokens_(plan.actors.size()) {
    for (ActorId i : plan.actors.ids()) {
      for (const Port& port : plan.actors[i].inputs) tokens_[i].in.push_back({port.reg, port.period});
      for (const Port& port : plan.actors[i].outputs) add_output(tokens_[i], port);
    }
    for (RegisterId r : plan.registers.ids()) {
      const Register& reg = plan.registers[r];
      if (reg.producer == session_actor) add_output(session_start_, {r, 1});
      if (std::count(reg.consumers.begin(), reg.consumers.end(), session_actor) > 0) session_done_.in.push_back({r});
    }
  }

  // Replays the entries of one worker. The order of entries of different workers does not matter, because each side of
  // a message counts its own tokens.
  void run(const EventLog& log, std::size_t worker) {
    require(log.overwritten == 0, "replay: ", log.overwritten, " entries of worker ", worker, " were overwritten");
    for (at_ = 0; at_ < log.events.size(); ++at_) {
      event_ = &log.events[at_];
      worker_ = worker;
      if (event_->plan == number_) take(*event_);
    }
    check_all_sent();
  }

  void check_finished() const {
    for (ActorId i : tokens_.ids()) require(!tokens_[i].acting, "replay: ", name(i), " never ended");
    for (const InputTokens& input : session_done_.in)
      require(input.filled_slots == 0, "replay: a launch ended without reading r", input.reg);
  }

 private:
  void add_output(Tokens& tokens, const Port& port) {
    const Register& reg = plan_.reg(port.reg);
    tokens.out.push_back(
        {port.reg, port.period, 0, reg.slots, 0, std::vector<int>(static_cast<std::size_t>(reg.slots))});
  }
  std::string name(ActorId actor) const {
    return actor == session_actor ? "the session" : cat("a", actor, " '", plan_.actor(actor).name, "'");
  }
  template <class... Parts> void check(bool ok, const Parts&... parts) const {
    require(ok, "replay: worker ", worker_, ", entry ", at_, " (", name_of(event_->kind), "): ", parts...);
  }
  Tokens& tokens_of(const Event& event) {
    if (event.actor != session_actor) {
      check(tokens_.has(event.actor), "no actor has the number ", event.actor);
      return tokens_[event.actor];
    }
    return event.message == Message::Kind::filled ? session_done_ : session_start_;
  }

  void take(const Event& event) {
    bool sends = event.kind == EventKind::handed || event.kind == EventKind::posted;
    if (!sends) check_all_sent();
    switch (event.kind) {
      case EventKind::launch_began: begin(session_start_, session_actor); return end(session_start_, session_actor);
      case EventKind::launch_ended: begin(session_done_, session_actor); return end(session_done_, session_actor);
      case EventKind::began: return begin(tokens_of(event), event.actor);
      case EventKind::ended: return end(tokens_of(event), event.actor);
      case EventKind::acted: begin(tokens_of(event), event.actor); return end(tokens_of(event), event.actor);
      case EventKind::failed: return check(tokens_of(event).acting, name(event.actor), " fails outside of an act");
      case EventKind::handed: on_sent(event); return on_arrived(event, tokens_of(event));
      case EventKind::posted: return on_sent(event);
      case EventKind::taken: return on_arrived(event, tokens_of(event));
      case EventKind::called:
      case EventKind::used_cpu: return check(tokens_of(event).acting, name(event.actor), " calls outside of an act");
    }
  }

  void begin(Tokens& tokens, ActorId actor) {
    check(!tokens.acting, name(actor), " begins an act during another act");
    check(actor == session_actor || tokens.acts == event_->piece, name(actor), " begins act ", event_->piece,
          ", but act ", tokens.acts, " is due");
    for (const InputTokens& input : tokens.in)
      check(input.filled_slots > 0, name(actor), " begins an act, but r", input.reg, " is not filled");
    for (OutputTokens& output : tokens.out) {
      if (output.phase > 0) continue;
      check(output.free_slots > 0, name(actor), " begins an act, but no slot of r", output.reg, " is free");
      --output.free_slots;
    }
    tokens.acting = true;
  }

  void end(Tokens& tokens, ActorId actor) {
    check(tokens.acting, name(actor), " ends an act that did not begin");
    tokens.acting = false;
    ++tokens.acts;
    sender_ = &tokens;
    sender_actor_ = actor;
    for (InputTokens& input : tokens.in) {
      if (++input.phase < input.period) continue;
      input.phase = 0;
      --input.filled_slots;
      unsent_messages_.push_back({Message::Kind::returned, input.reg, plan_.reg(input.reg).producer});
    }
    for (OutputTokens& output : tokens.out) {
      if (++output.phase < output.period) continue;
      output.phase = 0;
      for (ActorId consumer : plan_.reg(output.reg).consumers)
        unsent_messages_.push_back({Message::Kind::filled, output.reg, consumer});
    }
  }

  struct UnsentMessage {
    Message::Kind message;
    RegisterId reg;
    ActorId to;
    bool operator==(const UnsentMessage&) const = default;
  };

  void on_sent(const Event& event) {
    auto at = std::find(unsent_messages_.begin(), unsent_messages_.end(),
                        UnsentMessage{event.message, event.reg, event.actor});
    check(at != unsent_messages_.end(), name(sender_actor_), " sends a message of r", event.reg, " to ",
          name(event.actor), " that is not due");
    check(event.message == unsent_messages_.front().message, name(sender_actor_), " fills r", event.reg,
          " before it returned r", unsent_messages_.front().reg);
    unsent_messages_.erase(at);
    if (event.message == Message::Kind::returned) return;
    for (OutputTokens& output : sender_->out) {
      if (output.reg != event.reg) continue;
      int& readers = output.readers.at(static_cast<std::size_t>(event.slot));
      bool last = std::count_if(unsent_messages_.begin(), unsent_messages_.end(), [&](const UnsentMessage& d) {
                    return d.message == Message::Kind::filled && d.reg == event.reg;
                  }) == 0;
      auto consumers = static_cast<int>(plan_.reg(event.reg).consumers.size());
      if (partly_filled_slots_.emplace(event.reg, event.slot).second) {
        check(readers == 0, name(sender_actor_), " fills slot ", event.slot, " of r", event.reg,
              " before all consumers have returned it");
        readers = consumers;
      }
      check(event.piece == output.piece, name(sender_actor_), " fills piece ", event.piece, " of r", event.reg,
            ", but piece ", output.piece, " is due");
      if (last) ++output.piece, partly_filled_slots_.clear();
    }
  }
  void check_all_sent() const {
    require(unsent_messages_.empty(), "replay: worker ", worker_, ", before entry ", at_, ": ",
            unsent_messages_.empty() ? "" : name(sender_actor_), " did not send ", unsent_messages_.size(),
            " messages; the first is r", unsent_messages_.empty() ? RegisterId() : unsent_messages_[0].reg);
  }

  void on_arrived(const Event& event, Tokens& tokens) {
    if (event.message == Message::Kind::filled) {
      for (InputTokens& input : tokens.in) {
        if (input.reg != event.reg) continue;
        check(event.piece == input.piece, name(event.actor), " receives piece ", event.piece, " of r", event.reg,
              ", but piece ", input.piece, " is due");
        ++input.piece;
        check(++input.filled_slots <= plan_.reg(event.reg).slots, name(event.actor), " holds more slots of r",
              event.reg, " than there are");
        return;
      }
      check(false, name(event.actor), " receives a slot of r", event.reg, ", but does not read this register");
    }
    for (OutputTokens& output : tokens.out) {
      if (output.reg != event.reg) continue;
      int& readers = output.readers.at(static_cast<std::size_t>(event.slot));
      check(readers > 0, name(event.actor), " receives slot ", event.slot, " of r", event.reg,
            " back, but no consumer was reading it");
      if (--readers == 0) ++output.free_slots;
      return;
    }
    check(false, name(event.actor), " receives a slot of r", event.reg, " back, but does not write this register");
  }

  const Plan& plan_;
  const std::int32_t number_;
  ById<ActorId, Tokens> tokens_;
  Tokens session_start_, session_done_;
  std::vector<UnsentMessage> unsent_messages_;              // messages that the last ended act has not sent yet
  std::map<RegisterId, std::int16_t> partly_filled_slots_;  // not all consumers have been notified of these
  Tokens* sender_ = nullptr;
  ActorId sender_actor_;
  const Event* event_ = nullptr;
  std::size_t at_ = 0, worker_ = 0;
};

}  // namespace

void check_protocol(const Plan& plan, std::int32_t number, std::span<const EventLog> logs, bool finished) {
  Replay replay(plan, number);
  for (std::size_t worker = 0; worker < logs.size(); ++worker) replay.run(logs[worker], worker);
  if (finished) replay.check_finished();
}

}  // namespace karez::runtime
