// A search over all states of Ports and CollectiveSequence that a small plan can reach with several active launches.
// Each write stores a mark in the modelled memory. A call must never read a mark other than the one that it expects.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "karez/plan/collective_sequence.h"
#include "karez/plan/namespace.h"
#include "karez/plan/ports.h"

namespace karez::plan::testing {

// `placed` is `bare` with registers and values moved: calls, ports and operands correspond one to one. In `bare` no two
// values share bytes, so the location of an operand in `bare` identifies its value. A collective counts as two calls,
// since it reads its operands until it ends; the bound operands of inputs and fetches are not modelled. Messages arrive
// immediately; later arrivals would not allow any further states. An act consists of a step to begin, a step for each
// call, and a step to end.
class StateSearch {
 public:
  StateSearch(const Plan& bare, const Plan& placed, int launches) : bare_(bare), placed_(placed), launches_(launches) {
    for (ActorId a : placed.actors.ids()) calls_.push_back(calls_of(a));
  }

  std::size_t states = 0;
  bool complete = true;  // false: there are more than `max_states` states, and not all were visited

  // Returns a description of the first wrong mark that a call reads, or "" if no call reads one.
  std::string run(std::size_t max_states = 200'000) {
    State first(placed_);
    first.memory.assign(placed_.blocks.size(), {});
    for (BlockId b : placed_.blocks.ids())
      first.memory[b].assign(static_cast<std::size_t>(placed_.blocks[b].bytes / grain + 1), 0);
    first.at.assign(placed_.actors.size(), -1);
    std::vector<State> open;
    open.push_back(std::move(first));
    seen_.insert(key(open[0]));
    while (!open.empty() && error_.empty()) {
      State current = std::move(open.back());
      open.pop_back();
      if (++states > max_states) {
        complete = false;
        break;
      }
      auto branch = [&](auto change) {
        State next = current;
        change(next);
        if (seen_.insert(key(next)).second) open.push_back(std::move(next));
      };
      if (current.session_start.ready() && current.launched < launches_)
        branch([&](State& s) {
          ++s.launched;
          s.session_start.begin();
          s.session_start.complete([&](const Message& m) { deliver(s, m); });
        });
      if (current.session_done.ready())
        branch([&](State& s) {
          s.session_done.begin();
          s.session_done.complete([&](const Message& m) { deliver(s, m); });
        });
      for (ActorId a : placed_.actors.ids()) {
        const int last = static_cast<int>(calls_[a].size());
        if (current.at[a] < 0) {
          if (!current.ports[a].ready() || !current.sequence.may_begin(a) || stream_is_busy(current, a)) continue;
          branch([&](State& s) {
            s.ports[a].begin();
            if (placed_.actor(a).collective) s.sequence.position(a).begin(a);
            s.at[a] = 0;
          });
        } else if (current.at[a] < last) {
          branch([&](State& s) { call(s, a, calls_[a][static_cast<std::size_t>(s.at[a]++)]); });
        } else {
          branch([&](State& s) {
            s.at[a] = -1;
            if (placed_.actor(a).collective) s.sequence.position(a).end();
            s.ports[a].complete([&](const Message& m) { deliver(s, m); });
          });
        }
      }
    }
    return error_;
  }

 private:
  static constexpr std::int64_t grain = 16;  // bytes for each mark

  struct OperandAccess {
    const Operand *bare, *placed;
    bool writes;
  };
  struct State {
    explicit State(const Plan& plan)
        : session_start(Ports::session_start(plan)),
          session_done(Ports::session_done(plan)),
          sequence(plan) {
      for (ActorId a : plan.actors.ids()) ports.emplace_back(plan, a);
    }
    ById<ActorId, Ports> ports;
    Ports session_start, session_done;
    CollectiveSequence sequence;
    ById<ActorId, int> at;                             // the next call; -1: the actor is not running
    ById<BlockId, std::vector<std::uint64_t>> memory;  // by grain: the mark of the last write
    int launched = 0;
  };

  ById<ActorId, std::vector<std::vector<OperandAccess>>> calls_;

  std::vector<std::vector<OperandAccess>> calls_of(ActorId id) const {
    const Actor &bare = bare_.actor(id), &placed = placed_.actor(id);
    std::vector<std::vector<OperandAccess>> call_accesses;
    for (std::size_t c = 0; c < bare.calls.size(); ++c) {
      auto& accesses = call_accesses.emplace_back();
      for (std::size_t i = 0; i < bare.calls[c].in.size(); ++i)
        accesses.push_back({&bare.calls[c].in[i], &placed.calls[c].in[i], false});
      for (std::size_t i = 0; i < bare.calls[c].out.size(); ++i)
        accesses.push_back({&bare.calls[c].out[i], &placed.calls[c].out[i], true});
    }
    if (bare.collective) {
      call_accesses.push_back({{&bare.collective->in, &placed.collective->in, false},
                               {&bare.collective->out, &placed.collective->out, true}});
      if (bare.collective->staging)
        call_accesses.back().push_back({&*bare.collective->staging, &*placed.collective->staging, true});
      call_accesses.push_back({{&bare.collective->in, &placed.collective->in, false}});
      if (bare.collective->staging)
        call_accesses.back().push_back({&*bare.collective->staging, &*placed.collective->staging, false});
    }
    return call_accesses;
  }

  bool stream_is_busy(const State& s, ActorId a) const {
    if (placed_.actor(a).collective) return false;
    for (ActorId b : placed_.actors.ids())
      if (b != a && s.at[b] >= 0 && !placed_.actor(b).collective && placed_.actor(b).stream == placed_.actor(a).stream)
        return true;
    return false;
  }

  void deliver(State& s, const Message& m) const {
    if (m.to != session_actor) s.ports[m.to].take(m);
    else (m.kind == Message::Kind::filled ? s.session_done : s.session_start).take(m);
  }

  // The mark combines the location of the operand in the bare plan with the number of the act, which is the same for
  // the writer and the readers of a piece.
  std::uint64_t mark(const State& s, ActorId a, const Operand& bare) const {
    const auto act = static_cast<std::uint64_t>(s.ports[a].acts()) + 1;
    const std::uint64_t value_number =
        bare.reg.valid()
            ? 1000 + static_cast<std::uint64_t>(bare.reg.index)
            : 100'000 + static_cast<std::uint64_t>(bare.block.index) * 10'000 + static_cast<std::uint64_t>(bare.offset);
    return value_number * 1000 + act;
  }

  void call(State& s, ActorId a, const std::vector<OperandAccess>& accesses) {
    for (bool writes : {false, true})
      for (const OperandAccess& t : accesses) {
        if (t.writes != writes || (!t.bare->reg.valid() && !t.bare->block.valid())) continue;
        BlockId block = t.placed->block;
        std::int64_t begin = t.placed->offset;
        if (t.placed->reg.valid()) {
          const Register& r = placed_.reg(t.placed->reg);
          int slot = 0;
          for (int i = 0; i < s.ports[a].input_count(); ++i)
            if (s.ports[a].input_register(i) == t.placed->reg) slot = s.ports[a].input_slot(i);
          for (int o = 0; o < s.ports[a].output_count(); ++o)
            if (s.ports[a].output_register(o) == t.placed->reg) slot = s.ports[a].output_slot(o);
          block = r.block;
          begin += r.offset + slot * r.stride;
        }
        if (!block.valid() || placed_.block(block).kind == BlockKind::variable) continue;
        const std::uint64_t expected = mark(s, a, *t.bare);
        for (std::int64_t g = begin / grain; g * grain < begin + t.placed->view.bytes(); ++g) {
          auto& stored = s.memory[block][static_cast<std::size_t>(g)];
          if (writes) stored = expected;
          else if (stored != expected && error_.empty())
            error_ = cat("actor a", a, " '", placed_.actor(a).name, "' expects mark ", expected, " at byte ", g * grain,
                         " of block b", block, " but reads ", stored);
        }
      }
  }

  std::string key(const State& s) const {
    std::string out;
    for (const Ports& p : s.ports) out += p.text() + "\n";
    out += s.session_start.text() + s.session_done.text() + cat(s.launched);
    for (int at : s.at) out += cat(" ", at);
    for (ActorId a : placed_.actors.ids()) out += s.sequence.may_begin(a) ? '1' : '0';
    for (const auto& block : s.memory)
      out.append(reinterpret_cast<const char*>(block.data()), block.size() * sizeof(std::uint64_t));
    return out;
  }

  const Plan &bare_, &placed_;
  int launches_;
  std::unordered_set<std::string> seen_;
  std::string error_;
};

}  // namespace karez::plan::testing
