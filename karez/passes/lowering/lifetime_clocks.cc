// Numbers the times at which buffers begin and end along chains of acts.
#include "karez/passes/lowering/lifetime_clocks.h"

#include <algorithm>
#include <climits>
#include <map>

namespace karez::passes {
namespace {

constexpr int all_calls = INT_MAX - 1, after_act = INT_MAX;  // call numbers

}  // namespace

LifetimeClocks::LifetimeClocks(const solve::TokenReachability& reachability, const std::vector<ArenaBuffer>& buffers)
    : reachability_(reachability),
      buffers_(buffers) {
  std::map<int, int> begin_count;  // by chain
  for (const ArenaBuffer& b : buffers) ++begin_count[reachability.chain_of(b.first_call.actor.index)];
  begin_count.erase(-1);
  std::vector<std::pair<int, int>> by_count;
  for (auto [chain, count] : begin_count) by_count.emplace_back(-count, chain);
  std::sort(by_count.begin(), by_count.end());
  if (by_count.empty()) by_count.emplace_back(0, 0);
  by_count.resize(std::min(by_count.size(), max_clocks));
  std::vector<int> chains;
  for (auto [count, chain] : by_count) chains.push_back(chain), timelines.push_back(timeline_of(chain));
  for (const ArenaBuffer& b : buffers) {
    const auto found = std::find(chains.begin(), chains.end(), reachability.chain_of(b.first_call.actor.index));
    clock_of.push_back(found == chains.end() ? 0 : static_cast<int>(found - chains.begin()));
  }
}

LifetimeClocks::Lifetime LifetimeClocks::lifetime_of(const ArenaBuffer& b, int chain) const {
  const Time never(-1, before_act), always(reachability_.length(chain), before_act);
  if (b.is_exclusive) return {never, always, always};
  const int first = b.first_call.actor.index;
  Lifetime lifetime{reachability_.chain_of(first) == chain ? Time(reachability_.place_of(first), b.first_call.call)
                                                           : Time(reachability_.last_before(first, chain), after_act),
                    never, never};
  for (const CallPoint& last : b.last_calls) {
    const int reader = last.actor.index;
    const Time end = reachability_.chain_of(reader) == chain
                         ? Time(reachability_.place_of(reader), last.call >= all_calls ? all_calls : last.call + 1)
                         : Time(reachability_.first_after(reader, chain), before_act);
    lifetime.end = std::max(lifetime.end, end);
    lifetime.next_round_end =
        std::max(lifetime.next_round_end, Time(reachability_.next_after(reader, chain), before_act));
  }
  return lifetime;
}

solve::Timeline LifetimeClocks::timeline_of(int chain) const {
  std::vector<Lifetime> lifetimes;
  std::vector<Time> times = {Time(-1, before_act)};
  for (const ArenaBuffer& b : buffers_) {
    const Lifetime lifetime = lifetimes.emplace_back(lifetime_of(b, chain));
    for (const Time& t : {lifetime.begin, lifetime.end, lifetime.next_round_end}) times.push_back(t);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto number = [&](const Time& t) {
    return static_cast<int>(std::lower_bound(times.begin(), times.end(), t) - times.begin());
  };
  solve::Timeline timeline{static_cast<int>(times.size()), {}};
  for (const Lifetime& t : lifetimes)
    timeline.lifetimes.push_back({number(t.begin), std::max(number(t.begin), number(t.end)), number(t.next_round_end)});
  return timeline;
}

}  // namespace karez::passes
