// Group reachability by last places on chains for closed groups, and by lists for open ones.
#include "karez/solve/group_reachability.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "karez/base/error.h"

namespace karez::solve {

GroupReachability::GroupReachability(std::vector<std::vector<int>> waits_for)
    : waits_for_(std::move(waits_for)),
      of_(waits_for_.size(), -1) {
  for (std::size_t n = 0; n < waits_for_.size(); ++n)
    for (int from : waits_for_[n])
      require(from >= 0 && from < static_cast<int>(n), "group reachability: node ", n, " waits for node ", from);
  std::vector<int> order(waits_for_.size());
  std::iota(order.begin(), order.end(), 0);
  ChainLimits limits;
  limits.shortest = std::max(limits.shortest, static_cast<int>(std::sqrt(static_cast<double>(order.size())) / 2));
  auto each_before = [&](int n, auto visit) {
    for (int from : waits_for_[n]) visit(from);
  };
  chains_ = long_chains(order, each_before, limits);
  for (std::size_t n = 0; n < order.size(); ++n)  // the chains were followed from their ends
    if (chains_.chain[n] >= 0) chains_.place[n] = chains_.length[chains_.chain[n]] - 1 - chains_.place[n];
}

int GroupReachability::begin() {
  groups_.emplace_back();
  last_.resize(last_.size() + static_cast<std::size_t>(chains_.count()), -1);
  seen_.push_back(0);
  return static_cast<int>(groups_.size()) - 1;
}

void GroupReachability::put(int node, int group) {
  require(groups_[group].open, "group reachability: group ", group, " is closed");
  for (int n : waits_for_[node]) {
    const int from = of_[n];
    require(from >= 0, "group reachability: node ", node, " waits for node ", n, ", which is in no group yet");
    if (from == group) continue;
    if (auto& next = groups_[from].next; next.empty() || next.back() != group) next.push_back(group);
    inherit(group, from);
    for (int open : groups_[from].open_predecessors) add_open_predecessor(open, group);
    if (groups_[from].open) add_open_predecessor(from, group);
  }
  of_[node] = group;
  if (const int chain = chains_.chain[node]; chain >= 0) {
    Group& mine = groups_[group];
    if (mine.chain < 0) mine.chain = chain, mine.place = chains_.place[node];
    int& last = last_[static_cast<std::size_t>(group) * static_cast<std::size_t>(chains_.count()) +
                      static_cast<std::size_t>(chain)];
    last = std::max(last, chains_.place[node]);
  }
}

void GroupReachability::close(int group) {
  Group& mine = groups_[group];
  mine.open = false;
  for (int later : mine.later_groups) {
    inherit(later, group);
    std::erase(groups_[later].open_predecessors, group);
  }
  mine.later_groups = {};
}

void GroupReachability::inherit(int group, int from) {
  work_ += chains_.count();
  int* mine = &last_[static_cast<std::size_t>(group) * static_cast<std::size_t>(chains_.count())];
  const int* other = last_of(from);
  for (int c = 0; c < chains_.count(); ++c) mine[c] = std::max(mine[c], other[c]);
}

bool GroupReachability::is_after_open(int open, int group) const {
  const auto& all = groups_[group].open_predecessors;
  work_ += static_cast<std::int64_t>(all.size());
  return std::find(all.begin(), all.end(), open) != all.end();
}

// Also adds it to the groups after `group` if that is open; groups after a closed group inherit the predecessors.
void GroupReachability::add_open_predecessor(int open, int group) {
  require(open != group, "group reachability: group ", group, " would come before itself");
  if (is_after_open(open, group)) return;
  auto note = [&](int later) {
    groups_[later].open_predecessors.push_back(open);
    groups_[open].later_groups.push_back(later);
  };
  note(group);
  for (int later : groups_[group].later_groups)
    if (!is_after_open(open, later)) note(later);
}

// A group comes after `from` if its last place on the chain of `from` is the same or later.
bool GroupReachability::comes_on_chain(const Group& from, int to) const {
  const auto chain = static_cast<std::size_t>(from.chain);
  int last = last_of(to)[chain];
  for (int open : groups_[to].open_predecessors) last = std::max(last, last_of(open)[chain]);
  return last >= from.place;
}

bool GroupReachability::before(int from, int to) const {
  if (from == to) return false;
  ++round_;
  std::vector<int> walk = {from};
  for (std::size_t i = 0; i < walk.size(); ++i) {
    ++work_;
    const Group& at = groups_[walk[i]];
    if (walk[i] == to) return true;
    if (at.open || at.chain >= 0) {
      if (at.open ? is_after_open(walk[i], to) : comes_on_chain(at, to)) return true;
      continue;
    }
    for (int next : at.next)
      if (seen_[next] != round_) seen_[next] = round_, walk.push_back(next);
  }
  return false;
}

}  // namespace karez::solve
