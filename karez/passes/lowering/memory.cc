// memory: decides which buffers may share bytes, and packs them.
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
constexpr std::size_t max_retry_ratio = 3;  // times `max_pairwise` buffers: pairs are tried too if clocks waste bytes
constexpr double max_peak_ratio = 1.05;     // of the live bytes
constexpr int before_act = -1, whole_act = INT_MAX;  // call numbers; whole_act: the last call, or an act without calls

bool in_arena(const Plan& plan, BlockId b) {
  return b.valid() && (plan.block(b).kind == BlockKind::scratch || plan.block(b).kind == BlockKind::reg);
}

// Edges between acts of actors with the same number of acts per launch, act by act. The session is two nodes after the
// actors: one starts launches and one ends them, once per launch.
class HappensBefore {
 public:
  explicit HappensBefore(const Plan& plan)
      : plan_(plan),
        acts_(acts_per_launch(plan)),
        in_step_(stepping()),
        reach_(static_cast<int>(plan.actors.size()) + 2, edges()) {}

  // True if all actors of the register have the same number of acts, and each act uses a piece of its own.
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

  // Adds edges between the collectives of one communicator and device that have the same number of acts: from act k of
  // one to act k of the next, and to act k + 1 of an earlier one, if their turns have this order.
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

// A call of an act, or a whole act without calls.
struct CallPoint {
  ActorId actor;
  int call = 0;
};

// A contiguous range of bytes: all slots of a register, or overlapping operands of one actor.
struct ArenaBuffer {
  RegisterId reg;                     // the register; invalid for operands
  BlockId block;                      // of operands: the block of the range
  std::int64_t begin = 0, bytes = 0;  // of the range
  DeviceId device;
  bool alone = false;  // shares bytes with no other buffer
  CallPoint first;
  std::vector<CallPoint> last;  // of every reader
  StreamId stream;              // of the compute actor, if it lives within one act
};

// The range of a block that a register, or an operand at a fixed offset, uses.
struct BlockUse {
  std::int64_t begin = 0, end = 0;
  RegisterId reg;  // of a register
  ActorId actor;   // of an operand; both are invalid for the set-up
  int first = 0, last = 0;
  bool writes = false, some_acts = false;  // some_acts: written by a call that does not run in every act
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
  std::set<BlockId> packed;  // blocks whose contents are all in `made`; uses of other blocks are not known

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
      if (some_acts) first = before_act, last = whole_act;  // the first call that accesses it differs by act
      auto at = touched_[o.reg].try_emplace(actor, std::pair(first, last)).first;
      at->second = {std::min(at->second.first, first), std::max(at->second.second, last)};
    } else if (in_arena(plan_, o.block) && o.view.bytes() > 0) {
      taken_[o.block].push_back(
          {o.offset, o.offset + o.view.bytes(), {}, actor, first, last, writes, writes && some_acts});
    }
  }

  // Overlapping operands of one actor are one buffer. A block with any other overlap is not packed.
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
    auto calls = [&](ActorId a) {  // an act that never names the bytes may use them at any time
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
    p.bytes = round_up(all.end, line) - all.begin / line * line;  // it keeps its offset within a line
    p.device = plan_.block(block).device;
    // Bytes that are read first, or written in only some acts, may be from another act.
    p.alone = written > all.first || all.some_acts;
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

// The lifetimes of a device's buffers, with one clock for each chain of acts on which many of them begin. A time is a
// position on the chain and a call of that act; a buffer that begins on another chain begins after the last act of this
// chain that precedes it.
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
    most.resize(std::min(most.size(), max_clocks));
    for (auto [count, chain] : most) chains_.push_back(chain), made.push_back(clock(chain));
    for (const ArenaBuffer& p : places) {
      const auto at = std::find(chains_.begin(), chains_.end(), reach_.chain_of(p.first.actor.index));
      of.push_back(at == chains_.end() ? 0 : static_cast<int>(at - chains_.begin()));
    }
  }
  std::vector<solve::Timeline> made;
  std::vector<int> of;  // by place

 private:
  using Time = std::pair<int, int>;  // position on the chain, call of that act
  static constexpr std::size_t max_clocks = 4;
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

// Reduces registers to one slot if others can never be used, because each reader's act precedes the producer's next
// act.
void trim_slots(Plan& plan, const HappensBefore& before) {
  for (RegisterId id : plan.registers.ids()) {
    Register& r = plan.registers[id];
    if (r.slots == 1 || !in_arena(plan, r.block) || !before.in_step(id)) continue;
    if (std::all_of(r.consumers.begin(), r.consumers.end(), [&](ActorId c) { return before.next(c, r.producer); }))
      r.slots = 1;
  }
}

// Moves every operand and register of the plan to its new offset, and removes blocks that become empty.
class BufferMover {
 public:
  BufferMover(Plan& plan, const BufferTable& places) : plan_(plan), packed_(places.packed), to_(plan.blocks.size()) {
    ById<DeviceId, BlockId> arena(plan.devices.size());  // the first packed block of each device
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
      o.offset = o.view.bytes() == 0 ? 0 : o.offset + shift(o);  // an empty operand has no buffer
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
  std::map<BlockId, std::vector<std::pair<std::int64_t, std::int64_t>>> moved_;  // by old block: old and new offsets
};

// The packing of one device.
struct DevicePacking {
  std::vector<long> offset;
  long peak = 0;
};

// Packs by the pairs of buffers that may not share. Devices of a mesh often have equal problems, which are solved once.
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

// Packs by lifetimes on clocks. If a buffer lives within an act that is not on the main chain of its compute stream,
// lifetimes cannot separate it from other buffers of the stream. Such buffers are stored in a separate range; those of
// each act start at the beginning of the range.
class ClockPacker {
 public:
  ClockPacker(const solve::TokenReachability& reach, const std::vector<ArenaBuffer>& places)
      : reach_(reach),
        places_(places) {
    for (const ArenaBuffer& p : places)
      if (p.stream.valid()) ++chains_of_[p.stream][chain(p)];
  }

  // The most bytes in use at the end of any act of a chain.
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

  // Packs above the bytes that are packed already, in the order in which buffers begin.
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
  std::map<StreamId, std::map<int, int>> chains_of_;  // by compute stream and chain: buffers that begin there
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
