// Finds the bytes and the lifetime of each value, and checks that tokens separate values that share bytes.
#include "karez/plan/verify_sharing.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <map>
#include <tuple>

#include "karez/plan/token_distances.h"

namespace karez::plan {
namespace {

constexpr int before_all = -1, after_all = INT_MAX;  // call numbers that precede and follow all calls of an act

// A range of bytes that is in use from a call of its writer until the last calls of its readers. It is a register, or a
// value that an actor stores at a fixed offset.
struct Lifetime {
  std::int64_t begin = 0, end = 0;
  RegisterId reg;  // invalid for a value inside the actor `writer`
  ActorId writer;
  int from = before_all;
  std::vector<std::pair<ActorId, int>> until;
  bool carried = false;    // the value may be kept from one act to the next
  bool is_written = true;  // false: the actor only reads the value
};

std::string name_of(const Plan& plan, const Lifetime& s) {
  if (s.reg.valid())
    return cat("register r", s.reg, plan.reg(s.reg).type.empty() ? "" : " (" + plan.reg(s.reg).type + ")");
  return cat("the value of actor a", s.writer, " '", plan.actor(s.writer).name, "' at bytes ", s.begin, " to ", s.end);
}

// A map from disjoint byte ranges to their owners.
class RangeOwners {
 public:
  template <class Visit> void visit(std::int64_t begin, std::int64_t end, Visit callback) const {
    for (auto at = first_overlap(begin); at != ranges_.end() && at->first < end; ++at) callback(*at->second.lifetime);
  }
  void assign(std::int64_t begin, std::int64_t end, const Lifetime* lifetime) {
    split_at(begin), split_at(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    ranges_[begin] = {end, lifetime};
  }
  // Assigns the bytes of the range that have no owner.
  void assign_free(std::int64_t begin, std::int64_t end, const Lifetime* lifetime) {
    for (auto at = first_overlap(begin); begin < end; ++at) {
      const bool is_past_end = at == ranges_.end() || at->first >= end;
      if (const std::int64_t gap_end = is_past_end ? end : at->first; begin < gap_end)
        ranges_.emplace_hint(at, begin, OwnedRange{gap_end, lifetime});
      if (is_past_end) return;
      begin = at->second.end;
    }
  }
  template <class Visit> void visit_overlaps(const RangeOwners& owners, Visit callback) const {
    for (const auto& [begin, range] : ranges_)
      owners.visit(begin, range.end,
                   [&, &range = range](const Lifetime& other_lifetime) { callback(*range.lifetime, other_lifetime); });
  }

 private:
  struct OwnedRange {
    std::int64_t end = 0;
    const Lifetime* lifetime = nullptr;
  };
  std::map<std::int64_t, OwnedRange>::const_iterator first_overlap(std::int64_t begin) const {
    auto at = ranges_.upper_bound(begin);
    return at != ranges_.begin() && std::prev(at)->second.end > begin ? std::prev(at) : at;
  }
  void split_at(std::int64_t at) {
    auto next = ranges_.upper_bound(at);
    if (next == ranges_.begin()) return;
    auto& [begin, range] = *std::prev(next);
    if (begin == at || range.end <= at) return;
    ranges_[at] = range;
    range.end = at;
  }

  std::map<std::int64_t, OwnedRange> ranges_;  // by begin
};

class SharingVerifier {
 public:
  SharingVerifier(const Plan& plan, const ById<ActorId, std::int64_t>& acts)
      : plan_(plan),
        distances_(plan, acts),
        call_ranges_(plan.registers.size()),
        lifetimes_(plan.blocks.size()) {
    find_call_ranges();
    for (RegisterId r : plan.registers.ids())
      if (plan.registers[r].bytes > 0 && plan.block(plan.registers[r].block).kind != BlockKind::variable)
        add_register(r);
    for (ActorId a : plan.actors.ids()) add_fixed(a);
  }

  void check() {
    if (!distances_.is_acyclic()) return;  // the dry run reports cycles of waits
    for (BlockId b : plan_.blocks.ids())
      if (!is_totally_ordered(lifetimes_[b])) check_pairs(b);
  }

 private:
  void find_call_ranges() {
    auto touch = [&](const Operand& o, ActorId a, int call, bool all_acts) {
      if (!o.reg.valid()) return;
      auto& list = call_ranges_[o.reg];
      if (list.empty() || list.back().actor != a) list.push_back({a, call, call, false});
      list.back().last = call;
      list.back().some_acts |= !all_acts;
    };
    for (ActorId a : plan_.actors.ids()) {
      const auto& calls = plan_.actors[a].calls;
      for (std::size_t i = 0; i < calls.size(); ++i) {
        auto add_operand = [&](const Operand& o) { touch(o, a, static_cast<int>(i), calls[i].acts.all()); };
        std::for_each(calls[i].in.begin(), calls[i].in.end(), add_operand);
        std::for_each(calls[i].out.begin(), calls[i].out.end(), add_operand);
        if (calls[i].workspace) add_operand(*calls[i].workspace);
      }
    }
  }

  // Returns the first and the last call of the actor that access the register. If no call accesses it, or if one of
  // these calls runs in some acts only, returns the range of the complete act.
  std::pair<int, int> calls_of(ActorId id, RegisterId reg) const {
    const auto& list = call_ranges_[reg];
    const auto at =
        std::lower_bound(list.begin(), list.end(), id, [](const CallRange& t, ActorId a) { return t.actor < a; });
    if (at == list.end() || at->actor != id || at->some_acts) return {before_all, after_all};
    return {at->first, at->last};
  }

  void add_register(RegisterId id) {
    const Register& r = plan_.reg(id);
    Lifetime s{
        r.offset, r.offset + (r.slots - 1) * r.stride + r.bytes, id, r.producer, calls_of(r.producer, id).first, {},
        false};
    for (ActorId c : r.consumers) s.until.emplace_back(c, calls_of(c, id).second);
    lifetimes_[r.block].push_back(std::move(s));
  }

  // Adds the values that an act writes outside of registers. The lifetime of a byte range lasts from a write to the
  // last read before the next write.
  void add_fixed(ActorId id) {
    const Actor& actor = plan_.actor(id);
    struct FixedAccess {
      BlockId block;
      std::int64_t begin, end;
      int call;
      bool writes, some_acts;
    };
    std::vector<FixedAccess> accesses;
    auto add = [&](const Operand& o, int call, bool writes, bool some_acts = false) {
      if (!o.block.valid() || o.view.bytes() == 0) return;
      const BlockKind kind = plan_.block(o.block).kind;
      if (kind == BlockKind::variable || kind == BlockKind::constant) return;
      accesses.push_back({o.block, o.offset, o.offset + o.view.bytes(), call, writes, some_acts});
    };
    for (std::size_t i = 0; i < actor.calls.size(); ++i) {
      const bool some = !actor.calls[i].acts.all();
      for (const Operand& in : actor.calls[i].in) add(in, static_cast<int>(i), false);
      for (const Operand& out : actor.calls[i].out) add(out, static_cast<int>(i), true, some);
      if (actor.calls[i].workspace) add(*actor.calls[i].workspace, static_cast<int>(i), true);
    }
    if (!accesses.empty())
      return add_values(id, accesses, [](const FixedAccess& t) { return std::pair(t.call, t.call); });
    for (const Operand& o : actor.bound) add(o, 0, true);
    if (actor.collective) {
      add(actor.collective->in, 0, true);
      add(actor.collective->out, 0, true);
      if (actor.collective->staging) add(*actor.collective->staging, 0, true);
    }
    add_values(id, accesses, [](const FixedAccess&) { return std::pair(before_all, after_all); });
  }

  template <class Accesses, class Calls> void add_values(ActorId id, const Accesses& accesses, Calls calls) {
    std::map<BlockId, std::vector<std::int64_t>> ends;
    for (const auto& t : accesses) ends[t.block].push_back(t.begin), ends[t.block].push_back(t.end);
    for (auto& [block, at] : ends) {
      std::sort(at.begin(), at.end());
      at.erase(std::unique(at.begin(), at.end()), at.end());
      std::vector<std::vector<Lifetime>> range_lifetimes(at.size());
      std::vector<bool> written(at.size(), false);
      for (const auto& t : accesses) {
        if (t.block != block) continue;
        const auto [first, last] = calls(t);
        for (auto k = static_cast<std::size_t>(std::lower_bound(at.begin(), at.end(), t.begin) - at.begin());
             at[k] < t.end; ++k) {
          auto& list = range_lifetimes[k];
          const bool new_lifetime = t.writes && (list.empty() || list.back().until[0].second < first);
          if (new_lifetime || list.empty())
            list.push_back({at[k], at[k + 1], {}, id, new_lifetime ? first : before_all, {{id, last}}, !new_lifetime});
          else list.back().until[0].second = last;
          list.back().carried |= t.some_acts;
          written[k] = written[k] || t.writes;
        }
      }
      // Used to merge neighbouring ranges that are in use at the same time.
      std::map<std::tuple<int, int, bool, bool>, std::size_t> open;
      auto& block_lifetimes = lifetimes_[block];
      for (std::size_t k = 0; k < range_lifetimes.size(); ++k)
        for (Lifetime& s : range_lifetimes[k]) {
          s.is_written = written[k];
          auto [found, is_new] =
              open.try_emplace({s.from, s.until[0].second, s.carried, s.is_written}, block_lifetimes.size());
          if (!is_new && block_lifetimes[found->second].end == s.begin) {
            block_lifetimes[found->second].end = s.end;
          } else {
            found->second = block_lifetimes.size();
            block_lifetimes.push_back(std::move(s));
          }
        }
    }
  }

  // True if a ends before b begins in the same launch.
  bool ends_before(const Lifetime& a, const Lifetime& b) const {
    return std::all_of(a.until.begin(), a.until.end(), [&](const auto& last) {
      return last.first == b.writer ? last.second < b.from : distances_.tokens(last.first, b.writer) == 0;
    });
  }
  // True if b ends before a begins in the next launch.
  bool ends_before_next_launch(const Lifetime& b, const Lifetime& a) const {
    return std::all_of(b.until.begin(), b.until.end(),
                       [&](const auto& last) { return distances_.tokens(last.first, a.writer) <= 1; });
  }
  bool always_ends_before(const Lifetime& a, const Lifetime& b) const {
    return ends_before(a, b) && ends_before_next_launch(b, a);
  }
  bool in_step(const Lifetime& s) const { return s.reg.valid() ? distances_.in_step(s.reg) : !s.carried; }

  // True if the lifetimes of each byte follow one another, and the last ends before the first of the next launch
  // begins. It suffices to compare neighbours, since tokens add up along a path.
  bool is_totally_ordered(std::vector<Lifetime>& list) {
    std::sort(list.begin(), list.end(), [&](const Lifetime& x, const Lifetime& y) {
      return std::tuple(distances_.topological_rank(x.writer), x.from, x.begin) <
             std::tuple(distances_.topological_rank(y.writer), y.from, y.begin);
    });
    RangeOwners first, last;
    for (const Lifetime& s : list) {
      bool ordered = true;
      last.visit(s.begin, s.end, [&](const Lifetime& earlier) {
        ordered = ordered && in_step(earlier) && in_step(s) && ends_before(earlier, s);
      });
      if (!ordered) return false;
      last.assign(s.begin, s.end, &s);
      first.assign_free(s.begin, s.end, &s);
    }
    bool next_launch_ordered = true;
    first.visit_overlaps(last, [&](const Lifetime& first_lifetime, const Lifetime& last_lifetime) {
      next_launch_ordered = next_launch_ordered && (&first_lifetime == &last_lifetime ||
                                                    ends_before_next_launch(last_lifetime, first_lifetime));
    });
    return next_launch_ordered;
  }

  void check_pairs(BlockId block) {
    auto& list = lifetimes_[block];
    std::sort(list.begin(), list.end(), [](const Lifetime& x, const Lifetime& y) { return x.begin < y.begin; });
    for (std::size_t i = 0; i < list.size(); ++i)
      for (std::size_t j = i + 1; j < list.size() && list[j].begin < list[i].end; ++j) check(block, list[i], list[j]);
  }

  void check(BlockId block, const Lifetime& a, const Lifetime& b) {
    if (!a.reg.valid() && !b.reg.valid()) {
      if (a.writer == b.writer) return;
      const Actor &x = plan_.actor(a.writer), &y = plan_.actor(b.writer);
      const bool keeps_value = (a.carried && a.is_written) || (b.carried && b.is_written);
      if (!keeps_value && x.stream == y.stream && x.body == BodyKind::compute && y.body == BodyKind::compute)
        return;  // a stream runs one act at a time
    }
    if (in_step(a) && in_step(b) && (always_ends_before(a, b) || always_ends_before(b, a))) return;
    fail(name_of(plan_, a), " and ", name_of(plan_, b), " share bytes ", std::max(a.begin, b.begin), " to ",
         std::min(a.end, b.end), " of block b", block,
         ", but no tokens keep them apart: neither is read by all its consumers before the other is written, in this "
         "launch and the next");
  }

  const Plan& plan_;
  TokenDistances distances_;
  struct CallRange {
    ActorId actor;
    int first, last;  // calls
    bool some_acts;   // true if one of the calls does not run in all acts of the actor
  };
  ById<RegisterId, std::vector<CallRange>> call_ranges_;  // ascending by actor
  ById<BlockId, std::vector<Lifetime>> lifetimes_;
};

}  // namespace

void verify_sharing(const Plan& plan, const ById<ActorId, std::int64_t>& acts_per_launch) {
  SharingVerifier(plan, acts_per_launch).check();
}

}  // namespace karez::plan
