// memory: who may share, and the packing of all of them together.
#include "karez/passes/lowering/memory.h"

#include <algorithm>
#include <climits>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "karez/plan/acts.h"
#include "karez/solve/lifetime_packing.h"
#include "karez/solve/token_reachability.h"

namespace karez::passes {
namespace {

constexpr std::int64_t line = 64;
constexpr std::size_t max_retry_ratio =
    3;  // times `max_pairwise`: up to there pairs are asked as well where times waste bytes
constexpr double max_peak_ratio = 1.05;  // of what lives at once
constexpr int before_act = -1,
              whole_act = INT_MAX;  // as numbers of calls; the latter also as the last of an act without any

bool in_arena(const Plan& plan, BlockId b) {
  return b.valid() && (plan.block(b).kind == BlockKind::scratch || plan.block(b).kind == BlockKind::reg);
}

// Edges between acts of actors that act equally often in a launch, act by act. The session is two nodes behind the
// actors: what starts launches and what ends them, once a launch each.
class HappensBefore {
 public:
  explicit HappensBefore(const Plan& plan)
      : plan_(plan),
        acts_(acts_per_launch(plan)),
        in_step_(stepping()),
        reach_(static_cast<int>(plan.actors.size()) + 2, edges()) {}

  // Whether all that touch the register act equally often, and each of their acts is about a piece of its own.
  bool in_step(RegisterId id) const { return in_step_[id]; }
  bool same(ActorId from, ActorId to) const { return reach_.before_same_act(from.index, to.index); }
  bool next(ActorId from, ActorId to) const { return reach_.before_next_act(from.index, to.index); }
  const solve::TokenReachability& reach() const { return reach_; }

 private:
  std::int64_t acts(ActorId a) const { return a == session_actor ? 1 : acts_[a]; }

  ById<RegisterId, bool> stepping() const {
    ById<RegisterId, bool> made(plan_.registers.size(), true);
    for (ActorId a : plan_.actors.ids())
      for (const Port& port : plan_.actors[a].outputs)
        if (port.period != 1) made[port.reg] = false;
    for (RegisterId id : plan_.registers.ids()) {
      const Register& r = plan_.registers[id];
      if (std::any_of(r.consumers.begin(), r.consumers.end(), [&](ActorId c) { return acts(c) != acts(r.producer); }))
        made[id] = false;
    }
    return made;
  }

  std::vector<solve::TokenEdge> edges() const {
    const int start_node = static_cast<int>(plan_.actors.size()), done_node = start_node + 1;
    std::vector<solve::TokenEdge> made;
    for (RegisterId id : plan_.registers.ids()) {
      if (!in_step(id)) continue;
      const Register& r = plan_.registers[id];
      const int from = r.producer == session_actor ? start_node : r.producer.index;
      for (ActorId c : r.consumers) {
        const int to = c == session_actor ? done_node : c.index;
        made.push_back({from, to, 0});
        made.push_back({to, from, r.slots});
      }
    }
    add_turns(made);
    return made;
  }

  // Of the collectives of one seat that act equally often: act k of one comes before act k of the next, and before act
  // k + 1 of what went before, where their turns say so.
  void add_turns(std::vector<solve::TokenEdge>& made) const {
    std::map<std::tuple<CommunicatorId, DeviceId, std::int64_t>, std::map<int, ActorId>> sequences;  // by first turn
    for (ActorId a : plan_.actors.ids())
      if (const auto& c = plan_.actors[a].collective)
        sequences[{c->communicator, plan_.stream(plan_.actors[a].stream).device, acts_[a]}][c->turns[0]] = a;
    auto before = [&](ActorId from, ActorId to, std::size_t later) {  // act k of `from` before act k + later of `to`
      const auto &first = plan_.actor(from).collective->turns, &then = plan_.actor(to).collective->turns;
      for (std::size_t k = 0; k + later < then.size(); ++k)
        if (first[k] >= then[k + later]) return false;
      return true;
    };
    for (const auto& [key, order] : sequences)
      for (auto at = order.begin(); at != order.end(); ++at) {
        if (auto next = std::next(at); next != order.end() && before(at->second, next->second, 0))
          made.push_back({at->second.index, next->second.index, 0});
        for (auto last = order.rbegin(); last->first > at->first; ++last) {
          if (!before(last->second, at->second, 1)) continue;
          made.push_back({last->second.index, at->second.index, 1});
          break;
        }
      }
  }

  const Plan& plan_;
  ById<ActorId, std::int64_t> acts_;
  ById<RegisterId, bool> in_step_;
  solve::TokenReachability reach_;
};

// A call of an act; of an act without calls, all of it.
struct CallPoint {
  ActorId actor;
  int call = 0;
};

// Bytes that lie together: all slots of a register, or what operands inside one actor touch in common.
struct ArenaBuffer {
  RegisterId reg;                     // either this
  BlockId block;                      // or a range of this
  std::int64_t begin = 0, bytes = 0;  // of the range
  DeviceId device;
  bool alone = false;  // shares with nobody
  CallPoint first;
  std::vector<CallPoint> last;  // of every reader
  StreamId stream;              // of a compute actor within whose acts it lives
};

// What a register or an operand at a fixed place takes of a block.
struct BlockUse {
  std::int64_t begin = 0, end = 0;
  RegisterId reg;  // either this
  ActorId actor;   // or of this actor; neither: of the set-up
  int first = 0, last = 0;
  bool writes = false, some_acts = false;  // the latter: writes by a call that others of the actor's acts leave out
  bool same_owner(const BlockUse& other) const {
    return reg == other.reg && actor == other.actor && (reg.valid() || actor.valid());
  }
};

class BufferTable {
 public:
  BufferTable(const Plan& plan, const HappensBefore& before)
      : plan_(plan),
        before_(before),
        touched_(plan.registers.size()) {
    for (ActorId a : plan.actors.ids()) look_at(a);
    for (const Call& call : plan.setup)
      for (const auto* operands : {&call.in, &call.out})
        for (const Operand& o : *operands) touch({}, 0, 0, o, true);
    for (const Link& link : plan.links) linked_.insert(link.reg);
    for (RegisterId id : plan.registers.ids()) {
      const Register& r = plan.registers[id];
      if (in_arena(plan, r.block))
        taken_[r.block].push_back(
            {r.offset, r.offset + (r.slots - 1) * r.stride + r.bytes, id, {}, 0, 0, false, false});
    }
    for (auto& [block, taken] : taken_) add_block(block, taken);
  }
  std::vector<ArenaBuffer> made;
  std::set<BlockId> packed;  // whose contents all are among `made`; of others nobody knows who uses what

 private:
  void look_at(ActorId id) {
    const Actor& a = plan_.actor(id);
    for (std::size_t i = 0; i < a.calls.size(); ++i) {
      const int at = static_cast<int>(i);
      const bool some = !a.calls[i].acts.all();
      for (const Operand& in : a.calls[i].in) touch(id, at, at, in, false, some);
      for (const Operand& out : a.calls[i].out) touch(id, at, at, out, true, some);
      if (a.calls[i].workspace) touch(id, at, at, *a.calls[i].workspace, true);
    }
    for (const Operand& o : a.bound) touch(id, 0, whole_act, o, a.body == BodyKind::input);
    if (!a.collective) return;
    touch(id, 0, whole_act, a.collective->in, false);
    touch(id, 0, whole_act, a.collective->out, true);
    if (a.collective->staging) touch(id, 0, whole_act, *a.collective->staging, true);
  }

  void touch(ActorId actor, int first, int last, const Operand& o, bool writes, bool some_acts = false) {
    if (o.reg.valid()) {
      if (some_acts)
        first = before_act, last = whole_act;  // which of the act's calls is the first to touch it differs by act
      auto at = touched_[o.reg].try_emplace(actor, std::pair(first, last)).first;
      at->second = {std::min(at->second.first, first), std::max(at->second.second, last)};
    } else if (in_arena(plan_, o.block) && o.view.bytes() > 0) {
      taken_[o.block].push_back(
          {o.offset, o.offset + o.view.bytes(), {}, actor, first, last, writes, writes && some_acts});
    }
  }

  // Operands of one actor that touch common bytes are one value. A block in which anything else meets stays as it is.
  void add_block(BlockId block, std::vector<BlockUse>& taken) {
    std::sort(taken.begin(), taken.end(),
              [](const BlockUse& a, const BlockUse& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
    std::vector<ArenaBuffer> places;
    for (std::size_t at = 0; at < taken.size();) {
      BlockUse all = taken[at];
      int written = all.writes ? all.first : whole_act;
      for (++at; at < taken.size() && taken[at].begin < all.end; ++at) {
        const BlockUse& t = taken[at];
        if (!all.same_owner(t) || t.reg.valid()) return;
        all = {all.begin, std::max(all.end, t.end),     {},
               all.actor, std::min(all.first, t.first), std::max(all.last, t.last),
               true,      all.some_acts || t.some_acts};
        if (t.writes) written = std::min(written, t.first);
      }
      if (!all.reg.valid() && !all.actor.valid()) return;
      places.push_back(all.reg.valid() ? place_of(all.reg) : place_of(block, all, written));
    }
    made.insert(made.end(), places.begin(), places.end());
    packed.insert(block);
  }

  ArenaBuffer place_of(RegisterId id) const {
    const Register& r = plan_.reg(id);
    ArenaBuffer p;
    p.reg = id;
    p.bytes = r.slots * round_up(r.bytes, line);
    p.device = plan_.block(r.block).device;
    p.alone = linked_.count(id) > 0 || !before_.in_step(id);
    auto calls = [&](ActorId a) {  // an act that never names the bytes may have them all the while
      auto at = touched_[id].find(a);
      return at == touched_[id].end() ? std::pair(0, whole_act) : at->second;
    };
    p.first = {r.producer, calls(r.producer).first};
    for (ActorId c : r.consumers) p.last.push_back({c, calls(c).second});
    return p;
  }

  ArenaBuffer place_of(BlockId block, const BlockUse& all, int written) const {
    ArenaBuffer p;
    p.block = block;
    p.begin = all.begin;
    p.bytes = round_up(all.end, line) - all.begin / line * line;  // it stays as far from a line as it is
    p.device = plan_.block(block).device;
    p.alone = written > all.first ||
              all.some_acts;  // what is read first, or written in some acts only, may be from another act
    p.first = {all.actor, all.first};
    p.last = {{all.actor, all.last}};
    if (plan_.actor(all.actor).body == BodyKind::compute) p.stream = plan_.actor(all.actor).stream;
    return p;
  }

  const Plan& plan_;
  const HappensBefore& before_;
  ById<RegisterId, std::map<ActorId, std::pair<int, int>>> touched_;  // by actor: first and last call
  std::set<RegisterId> linked_;
  std::map<BlockId, std::vector<BlockUse>> taken_;
};

bool ends_before(const HappensBefore& before, const ArenaBuffer& p, const ArenaBuffer& q) {
  auto same = [&](const CallPoint& last) {
    if (last.actor == q.first.actor) return last.call < q.first.call;
    return before.same(last.actor, q.first.actor);
  };
  auto next = [&](const CallPoint& last) { return before.next(last.actor, p.first.actor); };
  return std::all_of(p.last.begin(), p.last.end(), same) && std::all_of(q.last.begin(), q.last.end(), next);
}

bool may_share(const HappensBefore& before, const ArenaBuffer& p, const ArenaBuffer& q) {
  if (p.alone || q.alone) return false;
  if (p.stream.valid() && p.stream == q.stream) {
    if (p.first.actor != q.first.actor) return true;
    return p.last[0].call < q.first.call || q.last[0].call < p.first.call;
  }
  return ends_before(before, p, q) || ends_before(before, q, p);
}

// The places of a device as the chains of acts tell their lives, a clock for each chain on which many of them begin. A
// time is a place on the chain and a call of its act; what begins beside the chain begins behind the last act before
// it.
class LifetimeClocks {
 public:
  LifetimeClocks(const solve::TokenReachability& reach, const std::vector<ArenaBuffer>& places)
      : reach_(reach),
        places_(places) {
    std::map<int, int> begun;
    for (const ArenaBuffer& p : places) ++begun[reach_.chain_of(p.first.actor.index)];
    begun.erase(-1);
    std::vector<std::pair<int, int>> most;
    for (auto [chain, count] : begun) most.emplace_back(-count, chain);
    std::sort(most.begin(), most.end());
    if (most.empty()) most.emplace_back(0, 0);
    most.resize(std::min(most.size(), most_clocks));
    for (auto [count, chain] : most) chains_.push_back(chain), made.push_back(clock(chain));
    for (const ArenaBuffer& p : places) {
      const auto at = std::find(chains_.begin(), chains_.end(), reach_.chain_of(p.first.actor.index));
      of.push_back(at == chains_.end() ? 0 : static_cast<int>(at - chains_.begin()));
    }
  }
  std::vector<solve::Timeline> made;
  std::vector<int> of;  // by place

 private:
  using Time = std::pair<int, int>;  // place on the chain, call of its act
  static constexpr std::size_t most_clocks = 4;
  static constexpr int all_calls = INT_MAX - 1, behind_it = INT_MAX;

  struct Lifetime {
    Time begin, end, again;
  };
  Lifetime span(const ArenaBuffer& p, int chain) const {
    const Time never(-1, before_act), always(reach_.length(chain), before_act);
    if (p.alone) return {never, always, always};
    const int first = p.first.actor.index;
    Lifetime s{reach_.chain_of(first) == chain ? Time(reach_.place_of(first), p.first.call)
                                               : Time(reach_.last_before(first, chain), behind_it),
               never, never};
    for (const CallPoint& last : p.last) {
      const int reader = last.actor.index;
      const Time end = reach_.chain_of(reader) == chain
                           ? Time(reach_.place_of(reader), last.call >= all_calls ? all_calls : last.call + 1)
                           : Time(reach_.first_after(reader, chain), before_act);
      s.end = std::max(s.end, end), s.again = std::max(s.again, Time(reach_.next_after(reader, chain), before_act));
    }
    return s;
  }

  solve::Timeline clock(int chain) const {
    std::vector<Lifetime> spans;
    std::vector<Time> times = {Time(-1, before_act)};
    for (const ArenaBuffer& p : places_) {
      const Lifetime s = spans.emplace_back(span(p, chain));
      for (const Time& t : {s.begin, s.end, s.again}) times.push_back(t);
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    auto number = [&](const Time& t) {
      return static_cast<int>(std::lower_bound(times.begin(), times.end(), t) - times.begin());
    };
    solve::Timeline made{static_cast<int>(times.size()), {}};
    for (const Lifetime& s : spans)
      made.lifetimes.push_back({number(s.begin), std::max(number(s.begin), number(s.end)), number(s.again)});
    return made;
  }

  const solve::TokenReachability& reach_;
  const std::vector<ArenaBuffer>& places_;
  std::vector<int> chains_;
};

// Slots that can never be used go: each reader's act comes before the producer's next one anyway.
void trim_slots(Plan& plan, const HappensBefore& before) {
  for (RegisterId id : plan.registers.ids()) {
    Register& r = plan.registers[id];
    if (r.slots == 1 || !in_arena(plan, r.block) || !before.in_step(id)) continue;
    if (std::all_of(r.consumers.begin(), r.consumers.end(), [&](ActorId c) { return before.next(c, r.producer); }))
      r.slots = 1;
  }
}

// Every operand and register of the plan at its new place, and blocks that nothing lies in any more left out.
class BufferMover {
 public:
  BufferMover(Plan& plan, const BufferTable& places) : plan_(plan), packed_(places.packed), to_(plan.blocks.size()) {
    ById<DeviceId, BlockId> arena(plan.devices.size());  // the first of a device's blocks that are packed
    ById<BlockId, plan::Block> kept;
    for (BlockId b : plan.blocks.ids()) {
      const bool packed = places.packed.count(b) > 0;
      BlockId& of_device = arena[plan.blocks[b].device];
      if (packed && of_device.valid()) {
        to_[b] = of_device;
        continue;
      }
      to_[b] = kept.add(plan.blocks[b]);
      if (!packed) continue;
      of_device = to_[b];
      plan::Block& block = kept[of_device];
      block.kind = BlockKind::scratch, block.bytes = 0;
      block.name.clear();
    }
    plan.blocks = std::move(kept);
  }

  void move(const std::vector<ArenaBuffer>& places, const std::vector<std::int64_t>& offset) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const ArenaBuffer& p = places[i];
      if (p.reg.valid()) {
        Register& r = plan_.registers[p.reg];
        r.stride = round_up(r.bytes, line), r.offset = offset[i];
      } else {
        moved_[p.block].push_back({p.begin, offset[i] + p.begin % line});
      }
    }
    for (auto& [block, list] : moved_) std::sort(list.begin(), list.end());
    for (Register& r : plan_.registers)
      if (r.block.valid()) r.block = to_[r.block];
    for (Actor& a : plan_.actors) {
      for (Call& call : a.calls) this->call(call);
      for (Operand& o : a.bound) operand(o);
      if (!a.collective) continue;
      operand(a.collective->in), operand(a.collective->out);
      if (a.collective->staging) operand(*a.collective->staging);
    }
    for (Call& call : plan_.setup) this->call(call);
  }
  BlockId now(BlockId before) const { return to_[before]; }

 private:
  void call(Call& call) {
    for (Operand& o : call.in) operand(o);
    for (Operand& o : call.out) operand(o);
    if (call.workspace) operand(*call.workspace);
  }
  void operand(Operand& o) {
    if (!o.block.valid()) return;
    if (packed_.count(o.block) > 0)
      o.offset = o.view.bytes() == 0 ? 0 : o.offset + shift(o);  // what is empty lies nowhere
    o.block = to_[o.block];
  }

  std::int64_t shift(const Operand& o) const {
    const auto& list = moved_.at(o.block);
    const auto [from, to] =
        *std::prev(std::upper_bound(list.begin(), list.end(), std::pair(o.offset, std::int64_t{INT64_MAX})));
    return to - from;
  }

  Plan& plan_;
  const std::set<BlockId>& packed_;
  ById<BlockId, BlockId> to_;
  std::map<BlockId, std::vector<std::pair<std::int64_t, std::int64_t>>> moved_;  // by old block: from where, to where
};

// One device's packing.
struct DevicePacking {
  std::vector<long> offset;
  long peak = 0;
};

// By pairs of places that may not share. Devices of a mesh are much alike: the same question is asked once.
class ConflictPacker {
 public:
  DevicePacking packed(const HappensBefore& before, const std::vector<ArenaBuffer>& places,
                       const solve::PackLimits& limits) {
    std::vector<solve::Block> blocks;
    std::vector<std::pair<int, int>> conflicts;
    for (std::size_t i = 0; i < places.size(); ++i) {
      blocks.push_back({static_cast<long>(places[i].bytes), static_cast<long>(line)});
      for (std::size_t j = 0; j < i; ++j)
        if (!may_share(before, places[i], places[j])) conflicts.emplace_back(static_cast<int>(j), static_cast<int>(i));
    }
    for (const PackingProblem& task : tasks_)
      if (task.conflicts == conflicts && task.same_sizes(blocks)) return task.packed;
    solve::Packing packing = solve::pack(blocks, conflicts, limits);
    return tasks_
        .emplace_back(
            PackingProblem{std::move(blocks), std::move(conflicts), {std::move(packing.offset), packing.peak}})
        .packed;
  }

 private:
  struct PackingProblem {
    std::vector<solve::Block> blocks;
    std::vector<std::pair<int, int>> conflicts;
    DevicePacking packed;
    bool same_sizes(const std::vector<solve::Block>& other) const {
      return std::equal(blocks.begin(), blocks.end(), other.begin(), other.end(),
                        [](const auto& a, const auto& b) { return a.size == b.size; });
    }
  };
  std::deque<PackingProblem> tasks_;
};

// By the times of their lives. What lives within acts of a compute stream that stand beside the chain on which most of
// them do has no time that tells it from the others of its stream, so it lies in a stretch that is kept for them, each
// act's from its beginning.
class ClockPacker {
 public:
  ClockPacker(const solve::TokenReachability& reach, const std::vector<ArenaBuffer>& places)
      : reach_(reach),
        places_(places) {
    for (const ArenaBuffer& p : places)
      if (p.stream.valid()) ++chains_of_[p.stream][chain(p)];
  }

  // The most bytes that must be in use when some act of a chain is over.
  long live() const {
    long most = 0;
    for (int c = 0; c < reach_.chains(); ++c) {
      std::vector<long> more(static_cast<std::size_t>(reach_.length(c)) + 1, 0);
      for (const ArenaBuffer& p : places_) {
        const int begin = reach_.first_after(p.first.actor.index, c);
        int end = 0;
        for (const CallPoint& last : p.last)
          end =
              std::max(end, reach_.last_before(last.actor.index, c) + (reach_.chain_of(last.actor.index) == c ? 0 : 1));
        if (begin < end)
          more[static_cast<std::size_t>(begin)] += p.bytes, more[static_cast<std::size_t>(end)] -= p.bytes;
      }
      long now = 0;
      for (long m : more) most = std::max(most, now += m);
    }
    return most;
  }

  DevicePacking packed(long live) const {
    std::map<StreamId, std::map<ActorId, std::vector<std::size_t>>> beside;
    std::vector<std::size_t> rest;
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (const ArenaBuffer& p = places_[i];
          p.stream.valid() && !p.alone && (chain(p) < 0 || chain(p) != main_chain(p.stream)))
        beside[p.stream][p.first.actor].push_back(i);
      else rest.push_back(i);
    DevicePacking packed{std::vector<long>(places_.size(), 0), 0};
    for (const auto& [stream, acts] : beside) {
      long most = 0;
      for (const auto& [actor, here] : acts) most = std::max(most, within_act(here, packed));
      packed.peak += most;
    }
    pack_by_time(rest, packed, live - packed.peak);
    return packed;
  }

 private:
  int chain(const ArenaBuffer& p) const { return reach_.chain_of(p.first.actor.index); }
  int main_chain(StreamId stream) const {
    const auto& count = chains_of_.at(stream);
    return std::max_element(
               count.begin(), count.end(),
               [](const auto& a, const auto& b) { return (a.first >= 0) * a.second < (b.first >= 0) * b.second; })
        ->first;
  }

  long within_act(const std::vector<std::size_t>& here, DevicePacking& packed) const {
    std::vector<solve::Interval> calls;
    for (std::size_t i : here) {
      const ArenaBuffer& p = places_[i];
      calls.push_back({p.first.call, std::int64_t{p.last[0].call} + 1, static_cast<long>(p.bytes), line});
    }
    const solve::Packing act = solve::pack(calls, {.search_work = 0});
    for (std::size_t k = 0; k < here.size(); ++k) packed.offset[here[k]] = packed.peak + act.offset[k];
    return act.peak;
  }

  // Above what is packed already, given in the order in which they begin.
  void pack_by_time(std::vector<std::size_t> order, DevicePacking& packed, long live) const {
    auto begin = [&](std::size_t i) {
      return std::tuple(reach_.rank(places_[i].first.actor.index), places_[i].first.call, -places_[i].bytes);
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return begin(a) < begin(b); });
    std::vector<ArenaBuffer> sorted;
    std::vector<solve::Block> blocks;
    for (std::size_t i : order)
      sorted.push_back(places_[i]), blocks.push_back({static_cast<long>(places_[i].bytes), static_cast<long>(line)});
    const LifetimeClocks clocks(reach_, sorted);
    const solve::LifetimePacking packing =
        solve::pack(blocks, clocks.made, clocks.of, {.target_peak = live + live / 64});
    for (std::size_t i = 0; i < order.size(); ++i) packed.offset[order[i]] = packed.peak + packing.offset[i];
    packed.peak += packing.peak;
  }

  const solve::TokenReachability& reach_;
  const std::vector<ArenaBuffer>& places_;
  std::map<StreamId, std::map<int, int>> chains_of_;  // of compute streams: how much begins on which chain
};

DevicePacking pack_by_clocks(const HappensBefore& before, const std::vector<ArenaBuffer>& places,
                             std::size_t max_pairwise) {
  const ClockPacker clocks(before.reach(), places);
  const long live = clocks.live();
  DevicePacking best = clocks.packed(live);
  if (places.size() > max_retry_ratio * max_pairwise ||
      static_cast<double>(best.peak) <= max_peak_ratio * static_cast<double>(live))
    return best;
  DevicePacking other = ConflictPacker().packed(before, places, {.search_work = 0});
  return other.peak < best.peak ? other : best;
}

}  // namespace

Plan memory(Plan plan, const solve::PackLimits& limits, std::size_t max_pairwise) {
  const HappensBefore before(plan);
  trim_slots(plan, before);
  const BufferTable places(plan, before);
  std::vector<std::int64_t> offset(places.made.size(), 0);
  ById<DeviceId, std::int64_t> peak(plan.devices.size(), 0);
  ConflictPacker pairs;
  for (DeviceId d : plan.devices.ids()) {
    std::vector<std::size_t> numbers;
    std::vector<ArenaBuffer> here;
    for (std::size_t i = 0; i < places.made.size(); ++i)
      if (places.made[i].device == d) numbers.push_back(i), here.push_back(places.made[i]);
    const DevicePacking packed =
        here.size() > max_pairwise ? pack_by_clocks(before, here, max_pairwise) : pairs.packed(before, here, limits);
    for (std::size_t i = 0; i < here.size(); ++i) offset[numbers[i]] = packed.offset[i];
    peak[d] = packed.peak;
  }
  BufferMover mover(plan, places);
  for (BlockId b : places.packed) {
    plan::Block& arena = plan.blocks[mover.now(b)];
    arena.bytes = std::max(arena.bytes, peak[arena.device]);
  }
  mover.move(places.made, offset);
  verify(plan);
  return plan;
}

}  // namespace karez::passes
