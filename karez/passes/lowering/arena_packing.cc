// Packs buffers by the pairs that must not share memory or, if there are too many pairs, by lifetimes on clocks.
#include "karez/passes/lowering/arena_packing.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "karez/passes/lowering/lifetime_clocks.h"

namespace karez::passes {
namespace {

constexpr std::size_t max_retry_ratio = 3;  // pack_by_clocks also packs up to 3 * max_pairwise buffers by pairs
constexpr double max_peak_ratio = 1.05;     // a higher ratio of peak to live bytes wastes too much memory

bool ends_before(const HappensBefore& order, const ArenaBuffer& p, const ArenaBuffer& q) {
  auto precedes_q = [&](const CallPoint& last) {
    if (last.actor == q.first_call.actor) return last.call < q.first_call.call;
    return order.before_same_act(last.actor, q.first_call.actor);
  };
  auto precedes_next_p = [&](const CallPoint& last) { return order.before_next_act(last.actor, p.first_call.actor); };
  return std::all_of(p.last_calls.begin(), p.last_calls.end(), precedes_q) &&
         std::all_of(q.last_calls.begin(), q.last_calls.end(), precedes_next_p);
}

bool may_share(const HappensBefore& order, const ArenaBuffer& p, const ArenaBuffer& q) {
  if (p.is_exclusive || q.is_exclusive) return false;
  if (p.stream.valid() && p.stream == q.stream) {
    if (p.first_call.actor != q.first_call.actor) return true;
    return p.last_calls[0].call < q.first_call.call || q.last_calls[0].call < p.first_call.call;
  }
  return ends_before(order, p, q) || ends_before(order, q, p);
}

solve::Block block_of(const ArenaBuffer& b) { return {static_cast<long>(b.bytes), static_cast<long>(cache_line)}; }

// Packs by lifetimes on clocks. If a buffer lives within an act that is not on the main chain of its compute stream,
// lifetimes cannot separate it from other buffers of the stream. Such buffers are stored in a separate range; the
// buffers of each act start at the beginning of that range.
class ClockPacker {
 public:
  ClockPacker(const solve::TokenReachability& reachability, const std::vector<ArenaBuffer>& buffers)
      : reachability_(reachability),
        buffers_(buffers) {
    for (const ArenaBuffer& b : buffers)
      if (b.stream.valid()) ++begin_count_[b.stream][chain_of(b)];
  }

  // Returns the maximum number of bytes in use at the end of any act of a chain.
  long live_bytes() const {
    long max_live = 0;
    for (int c = 0; c < reachability_.chains(); ++c) {
      std::vector<long> change(static_cast<std::size_t>(reachability_.length(c)) + 1, 0);
      for (const ArenaBuffer& b : buffers_) {
        const int begin = reachability_.first_after(b.first_call.actor.index, c);
        int end = 0;
        for (const CallPoint& last : b.last_calls)
          end = std::max(end, reachability_.last_before(last.actor.index, c) +
                                  (reachability_.chain_of(last.actor.index) == c ? 0 : 1));
        if (begin < end)
          change[static_cast<std::size_t>(begin)] += b.bytes, change[static_cast<std::size_t>(end)] -= b.bytes;
      }
      long live = 0;
      for (long bytes : change) max_live = std::max(max_live, live += bytes);
    }
    return max_live;
  }

  DevicePacking pack(long live) const {
    std::map<StreamId, std::map<ActorId, std::vector<std::size_t>>> off_main_chain;  // buffers, as indices
    std::vector<std::size_t> rest;
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (const ArenaBuffer& b = buffers_[i];
          b.stream.valid() && !b.is_exclusive && (chain_of(b) < 0 || chain_of(b) != main_chain(b.stream)))
        off_main_chain[b.stream][b.first_call.actor].push_back(i);
      else rest.push_back(i);
    DevicePacking packing{std::vector<long>(buffers_.size(), 0), 0};
    for (const auto& [stream, acts] : off_main_chain) {
      long max_bytes = 0;
      for (const auto& [actor, indices] : acts) max_bytes = std::max(max_bytes, pack_within_act(indices, packing));
      packing.peak += max_bytes;
    }
    pack_by_time(rest, packing, live - packing.peak);
    return packing;
  }

 private:
  int chain_of(const ArenaBuffer& b) const { return reachability_.chain_of(b.first_call.actor.index); }
  int main_chain(StreamId stream) const {
    const auto& count = begin_count_.at(stream);
    return std::max_element(
               count.begin(), count.end(),
               [](const auto& a, const auto& b) { return (a.first >= 0) * a.second < (b.first >= 0) * b.second; })
        ->first;
  }

  long pack_within_act(const std::vector<std::size_t>& indices, DevicePacking& packing) const {
    std::vector<solve::Interval> calls;
    for (std::size_t i : indices) {
      const ArenaBuffer& b = buffers_[i];
      calls.push_back(
          {b.first_call.call, std::int64_t{b.last_calls[0].call} + 1, static_cast<long>(b.bytes), cache_line});
    }
    const solve::Packing act = solve::pack(calls, {.search_work = 0});
    for (std::size_t k = 0; k < indices.size(); ++k) packing.offset[indices[k]] = packing.peak + act.offset[k];
    return act.peak;
  }

  // Packs above the bytes that are packed already, in the order in which buffers begin.
  void pack_by_time(std::vector<std::size_t> indices, DevicePacking& packing, long live) const {
    auto begin = [&](std::size_t i) {
      return std::tuple(reachability_.rank(buffers_[i].first_call.actor.index), buffers_[i].first_call.call,
                        -buffers_[i].bytes);
    };
    std::stable_sort(indices.begin(), indices.end(), [&](std::size_t a, std::size_t b) { return begin(a) < begin(b); });
    std::vector<ArenaBuffer> sorted;
    std::vector<solve::Block> blocks;
    for (std::size_t i : indices) sorted.push_back(buffers_[i]), blocks.push_back(block_of(buffers_[i]));
    const LifetimeClocks clocks(reachability_, sorted);
    const solve::LifetimePacking by_time =
        solve::pack(blocks, clocks.timelines, clocks.clock_of, {.target_peak = live + live / 64});
    for (std::size_t i = 0; i < indices.size(); ++i) packing.offset[indices[i]] = packing.peak + by_time.offset[i];
    packing.peak += by_time.peak;
  }

  const solve::TokenReachability& reachability_;
  const std::vector<ArenaBuffer>& buffers_;
  std::map<StreamId, std::map<int, int>> begin_count_;  // number of buffers that begin on each chain, by compute stream
};

}  // namespace

bool ConflictPacker::SolvedProblem::has_sizes_of(const std::vector<solve::Block>& other) const {
  return std::equal(blocks.begin(), blocks.end(), other.begin(), other.end(),
                    [](const auto& a, const auto& b) { return a.size == b.size; });
}

DevicePacking ConflictPacker::pack(const HappensBefore& order, const std::vector<ArenaBuffer>& buffers,
                                   const solve::PackLimits& limits) {
  std::vector<solve::Block> blocks;
  std::vector<std::pair<int, int>> conflicts;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    blocks.push_back(block_of(buffers[i]));
    for (std::size_t j = 0; j < i; ++j)
      if (!may_share(order, buffers[i], buffers[j])) conflicts.emplace_back(static_cast<int>(j), static_cast<int>(i));
  }
  for (const SolvedProblem& problem : solved_)
    if (problem.conflicts == conflicts && problem.has_sizes_of(blocks)) return problem.packing;
  solve::Packing packing = solve::pack(blocks, conflicts, limits);
  return solved_
      .emplace_back(SolvedProblem{std::move(blocks), std::move(conflicts), {std::move(packing.offset), packing.peak}})
      .packing;
}

DevicePacking pack_by_clocks(const HappensBefore& order, const std::vector<ArenaBuffer>& buffers,
                             std::size_t max_pairwise) {
  const ClockPacker clocks(order.reachability(), buffers);
  const long live = clocks.live_bytes();
  DevicePacking by_clocks = clocks.pack(live);
  if (buffers.size() > max_retry_ratio * max_pairwise ||
      static_cast<double>(by_clocks.peak) <= max_peak_ratio * static_cast<double>(live))
    return by_clocks;
  DevicePacking by_pairs = ConflictPacker().pack(order, buffers, {.search_work = 0});
  return by_pairs.peak < by_clocks.peak ? by_pairs : by_clocks;
}

}  // namespace karez::passes
