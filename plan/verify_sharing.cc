// Who uses which bytes from when to when, and a walk along tokens for every two that share some.
#include "plan/verify_sharing.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace karez::plan {
namespace {

constexpr int before_all = -1, after_all = INT_MAX;  // as numbers of calls

// Bytes in use from a call of one actor until calls of others: a register, or what an actor writes at a fixed place and reads again.
struct Stay {
  std::int64_t begin = 0, end = 0;
  RegisterId reg;  // or of an actor alone: `writer`
  ActorId writer;
  int from = before_all;
  std::vector<std::pair<ActorId, int>> until;
  bool carried = false;  // from one act to the next, perhaps
};

std::string name_of(const Plan& plan, const Stay& s) {
  if (s.reg.valid()) return cat("register r", s.reg, plan.reg(s.reg).type.empty() ? "" : " (" + plan.reg(s.reg).type + ")");
  return cat("what actor a", s.writer, " '", plan.actor(s.writer).name, "' keeps at bytes ", s.begin, " to ", s.end);
}

// A walk over (actor, tokens met): which acts cannot begin before an act of `from` is over. The session is two nodes: it starts, it ends.
class Walks {
 public:
  Walks(const Plan& plan, const ById<ActorId, std::int64_t>& acts) : plan_(plan), acts_(acts), steps_(plan.actors.size() + 2) {
    for (RegisterId r : plan.registers.ids()) add(r);
    std::vector<ActorId> collectives;
    for (ActorId a : plan.actors.ids())
      if (plan.actors[a].collective) collectives.push_back(a);
    for (ActorId a : collectives)
      for (ActorId b : collectives)
        if (same_seat(a, b)) add_turns(a, b);
  }

  // Act k of a reader takes what act k of the writer made: as many acts, and a piece in each.
  bool in_step(RegisterId id) const {
    const Register& r = plan_.reg(id);
    auto acts = [&](ActorId a) { return a == session_actor ? 1 : acts_[a]; };
    for (ActorId c : r.consumers)
      if (acts(c) != acts(r.producer)) return false;
    if (r.producer == session_actor) return true;
    for (const Port& port : plan_.actor(r.producer).outputs)
      if (port.reg == id && port.period != 1) return false;
    return true;
  }
  // Fewest tokens between the end of an act and the beginning of another: 0, 1, or 2 for more.
  int tokens(ActorId from, ActorId to) {
    auto& met = met_[from];
    if (met.empty()) met = walk(node(from));
    return met[node(to)];
  }

 private:
  struct Step {
    std::size_t to;
    int tokens;
  };
  std::size_t node(ActorId a) const { return static_cast<std::size_t>(a.index); }

  void add(RegisterId id) {
    const Register& r = plan_.reg(id);
    if (!in_step(id)) return;
    const std::size_t from = r.producer == session_actor ? plan_.actors.size() : node(r.producer);
    for (ActorId c : r.consumers) {
      const std::size_t to = c == session_actor ? plan_.actors.size() + 1 : node(c);
      steps_[from].push_back({to, 0});
      // A slot comes back when all have read it; one slot says the next act waits for this reader.
      if (r.slots == 1) steps_[to].push_back({from, 1});
    }
  }

  bool same_seat(ActorId a, ActorId b) const {
    const auto &x = plan_.actor(a).collective, &y = plan_.actor(b).collective;
    return x && y && x->communicator == y->communicator && acts_[a] == acts_[b] &&
           plan_.stream(plan_.actor(a).stream).device == plan_.stream(plan_.actor(b).stream).device;
  }
  // Act k of the one before act k of the other, or before its act k + 1, as their places in the sequence say.
  void add_turns(ActorId a, ActorId b) {
    const auto &x = plan_.actor(a).collective->turns, &y = plan_.actor(b).collective->turns;
    if (std::equal(x.begin(), x.end(), y.begin(), y.end(), std::less<>())) steps_[node(a)].push_back({node(b), 0});
    else if (std::equal(x.begin(), x.end() - 1, y.begin() + 1, y.end(), std::less<>())) steps_[node(a)].push_back({node(b), 1});
  }

  std::vector<std::uint8_t> walk(std::size_t from) const {
    std::vector<std::uint8_t> least(steps_.size(), 2);
    least[from] = 1;  // its own next act comes behind this one
    std::vector<std::pair<std::size_t, int>> open = {{from, 0}};
    while (!open.empty()) {
      const auto [at, met] = open.back();
      open.pop_back();
      for (const Step& step : steps_[at]) {
        const int sum = met + step.tokens;
        if (sum >= least[step.to]) continue;
        least[step.to] = static_cast<std::uint8_t>(sum);
        open.emplace_back(step.to, sum);
      }
    }
    return least;
  }

  const Plan& plan_;
  const ById<ActorId, std::int64_t>& acts_;
  std::vector<std::vector<Step>> steps_;
  std::map<ActorId, std::vector<std::uint8_t>> met_;
};

class Sharing {
 public:
  Sharing(const Plan& plan, const ById<ActorId, std::int64_t>& acts) : plan_(plan), walks_(plan, acts), stays_(plan.blocks.size()) {
    for (RegisterId r : plan.registers.ids())
      if (plan.registers[r].bytes > 0 && plan.block(plan.registers[r].block).kind != BlockKind::variable) add_register(r);
    for (ActorId a : plan.actors.ids()) add_fixed(a);
  }

  void check() {
    for (BlockId b : plan_.blocks.ids()) {
      auto& list = stays_[b];
      std::sort(list.begin(), list.end(), [](const Stay& x, const Stay& y) { return x.begin < y.begin; });
      for (std::size_t i = 0; i < list.size(); ++i)
        for (std::size_t j = i + 1; j < list.size() && list[j].begin < list[i].end; ++j) check(b, list[i], list[j]);
    }
  }

 private:
  // The first and the last call of an act that touches the register; all of it where no call does, or one that is not in all acts.
  std::pair<int, int> calls_of(ActorId id, RegisterId reg) const {
    const Actor& actor = plan_.actor(id);
    int first = after_all, last = before_all;
    for (std::size_t i = 0; i < actor.calls.size(); ++i) {
      const Call& call = actor.calls[i];
      auto is = [&](const Operand& o) { return o.reg == reg; };
      if (!std::any_of(call.in.begin(), call.in.end(), is) && !std::any_of(call.out.begin(), call.out.end(), is) &&
          !(call.workspace && is(*call.workspace)))
        continue;
      if (!call.acts.all()) return {before_all, after_all};
      first = std::min(first, static_cast<int>(i));
      last = static_cast<int>(i);
    }
    return first == after_all ? std::pair(before_all, after_all) : std::pair(first, last);
  }

  void add_register(RegisterId id) {
    const Register& r = plan_.reg(id);
    Stay s{r.offset, r.offset + (r.slots - 1) * r.stride + r.bytes, id, r.producer, calls_of(r.producer, id).first, {}, false};
    for (ActorId c : r.consumers) s.until.emplace_back(c, calls_of(c, id).second);
    stays_[r.block].push_back(std::move(s));
  }

  // What one act writes outside of registers, each stretch of bytes from a write to the last read before the next.
  void add_fixed(ActorId id) {
    const Actor& actor = plan_.actor(id);
    struct Touch {
      BlockId block;
      std::int64_t begin, end;
      int call;
      bool writes, some_acts;
    };
    std::vector<Touch> touches;
    auto add = [&](const Operand& o, int call, bool writes, bool some_acts = false) {
      if (!o.block.valid() || o.view.bytes() == 0) return;
      const BlockKind kind = plan_.block(o.block).kind;
      if (kind == BlockKind::variable || kind == BlockKind::constant) return;
      touches.push_back({o.block, o.offset, o.offset + o.view.bytes(), call, writes, some_acts});
    };
    for (std::size_t i = 0; i < actor.calls.size(); ++i) {
      const bool some = !actor.calls[i].acts.all();
      for (const Operand& in : actor.calls[i].in) add(in, static_cast<int>(i), false);
      for (const Operand& out : actor.calls[i].out) add(out, static_cast<int>(i), true, some);
      if (actor.calls[i].workspace) add(*actor.calls[i].workspace, static_cast<int>(i), true);
    }
    if (!touches.empty()) return add_values(id, touches, [](const Touch& t) { return std::pair(t.call, t.call); });
    for (const Operand& o : actor.bound) add(o, 0, true);
    if (actor.collective) {
      add(actor.collective->in, 0, true);
      add(actor.collective->out, 0, true);
      if (actor.collective->staging) add(*actor.collective->staging, 0, true);
    }
    add_values(id, touches, [](const Touch&) { return std::pair(before_all, after_all); });
  }

  template <class Touches, class Calls> void add_values(ActorId id, const Touches& touches, Calls calls) {
    std::map<BlockId, std::vector<std::int64_t>> ends;
    for (const auto& t : touches) ends[t.block].push_back(t.begin), ends[t.block].push_back(t.end);
    for (auto& [block, at] : ends) {
      std::sort(at.begin(), at.end());
      at.erase(std::unique(at.begin(), at.end()), at.end());
      std::vector<std::vector<Stay>> of_stretch(at.size());
      for (const auto& t : touches) {
        if (t.block != block) continue;
        const auto [first, last] = calls(t);
        for (auto k = static_cast<std::size_t>(std::lower_bound(at.begin(), at.end(), t.begin) - at.begin()); at[k] < t.end; ++k) {
          auto& list = of_stretch[k];
          const bool anew = t.writes && (list.empty() || list.back().until[0].second < first);
          if (anew || list.empty()) list.push_back({at[k], at[k + 1], {}, id, anew ? first : before_all, {{id, last}}, !anew});
          else list.back().until[0].second = last;
          list.back().carried |= t.some_acts;
        }
      }
      std::map<std::tuple<int, int, bool>, std::size_t> open;  // neighbours in use at the same time are one
      auto& made = stays_[block];
      for (auto& list : of_stretch)
        for (Stay& s : list) {
          auto [found, fresh] = open.try_emplace({s.from, s.until[0].second, s.carried}, made.size());
          if (!fresh && made[found->second].end == s.begin) {
            made[found->second].end = s.end;
          } else {
            found->second = made.size();
            made.push_back(std::move(s));
          }
        }
    }
  }

  bool over_before(const Stay& a, const Stay& b) {
    auto first = [&](const auto& last) {
      if (last.first == b.writer) return last.second < b.from;
      return walks_.tokens(last.first, b.writer) == 0;
    };
    auto again = [&](const auto& last) { return walks_.tokens(last.first, a.writer) <= 1; };
    return std::all_of(a.until.begin(), a.until.end(), first) && std::all_of(b.until.begin(), b.until.end(), again);
  }
  bool in_step(const Stay& s) const { return s.reg.valid() ? walks_.in_step(s.reg) : !s.carried; }

  void check(BlockId block, const Stay& a, const Stay& b) {
    if (!a.reg.valid() && !b.reg.valid()) {
      if (a.writer == b.writer) return;
      const Actor &x = plan_.actor(a.writer), &y = plan_.actor(b.writer);
      if (x.stream == y.stream && x.body == BodyKind::compute && y.body == BodyKind::compute) return;  // a stream runs one act at a time
    }
    if (in_step(a) && in_step(b) && (over_before(a, b) || over_before(b, a))) return;
    fail(name_of(plan_, a), " and ", name_of(plan_, b), " share bytes ", std::max(a.begin, b.begin), " to ", std::min(a.end, b.end), " of block b",
         block, ", but no tokens keep them apart: neither is read by all before the other is written, in this launch and the next");
  }

  const Plan& plan_;
  Walks walks_;
  ById<BlockId, std::vector<Stay>> stays_;
};

}  // namespace

void verify_sharing(const Plan& plan, const ById<ActorId, std::int64_t>& acts_per_launch) { Sharing(plan, acts_per_launch).check(); }

}  // namespace karez::plan
