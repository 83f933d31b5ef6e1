// Computes the reachability of groups: for closed groups from the last places on chains, and for open groups from lists
// of later groups.
#include "karez/solve/group_reachability.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "karez/base/error.h"

namespace karez::solve {

GroupReachability::GroupReachability(std::vector<std::vector<int>> waits_for)
    : waits_for_(std::move(waits_for)),
      group_of_(waits_for_.size(), -1) {
  for (std::size_t n = 0; n < waits_for_.size(); ++n)
    for (int from : waits_for_[n])
      require(from >= 0 && from < static_cast<int>(n), "group reachability: node ", n,
              " must wait only for nodes with smaller numbers, got node ", from);
  std::vector<int> order(waits_for_.size());
  std::iota(order.begin(), order.end(), 0);
  ChainLimits limits;
  limits.min_length = std::max(limits.min_length, static_cast<int>(std::sqrt(static_cast<double>(order.size())) / 2));
  auto each_before = [&](int n, auto visit) {
    for (int from : waits_for_[n]) visit(from);
  };
  chains_ = long_chains(order, each_before, limits);
  for (std::size_t n = 0; n < order.size();
       ++n)  // reverses the places, because long_chains gets predecessors as successors
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
    const int from = group_of_[n];
    require(from >= 0, "group reachability: node ", node, " waits for node ", n, ", which is in no group yet");
    if (from == group) continue;
    if (auto& next = groups_[from].next; next.empty() || next.back() != group) next.push_back(group);
    inherit(group, from);
    for (int open : groups_[from].open_predecessors) add_open_predecessor(open, group);
    if (groups_[from].open) add_open_predecessor(from, group);
  }
  group_of_[node] = group;
  if (const int chain = chains_.chain[node]; chain >= 0) {
    Group& entry = groups_[group];
    if (entry.chain < 0) entry.chain = chain, entry.place = chains_.place[node];
    int& last = last_[static_cast<std::size_t>(group) * static_cast<std::size_t>(chains_.count()) +
                      static_cast<std::size_t>(chain)];
    last = std::max(last, chains_.place[node]);
  }
}

void GroupReachability::close(int group) {
  Group& entry = groups_[group];
  entry.open = false;
  for (int later : entry.later_groups) {
    inherit(later, group);
    std::erase(groups_[later].open_predecessors, group);
  }
  entry.later_groups = {};
}

void GroupReachability::inherit(int group, int from) {
  work_ += chains_.count();
  int* own_last = &last_[static_cast<std::size_t>(group) * static_cast<std::size_t>(chains_.count())];
  const int* other_last = last_of(from);
  for (int c = 0; c < chains_.count(); ++c) own_last[c] = std::max(own_last[c], other_last[c]);
}

bool GroupReachability::is_after_open(int open, int group) const {
  const auto& predecessors = groups_[group].open_predecessors;
  work_ += static_cast<std::int64_t>(predecessors.size());
  return std::find(predecessors.begin(), predecessors.end(), open) != predecessors.end();
}

// Adds the open group `open` to the predecessors of `group` and of all groups after `group`.
void GroupReachability::add_open_predecessor(int open, int group) {
  require(open != group, "group reachability: group ", group, " would come before itself");
  if (is_after_open(open, group)) return;
  auto add_predecessor = [&](int later) {
    groups_[later].open_predecessors.push_back(open);
    groups_[open].later_groups.push_back(later);
  };
  add_predecessor(group);
  for (int later : groups_[group].later_groups)
    if (!is_after_open(open, later)) add_predecessor(later);
}

// Returns whether `to` comes after `from`: the last place of `to` on the chain of `from` is the place of `from` or a
// later one.
bool GroupReachability::comes_on_chain(const Group& from, int to) const {
  const auto chain = static_cast<std::size_t>(from.chain);
  int last = last_of(to)[chain];
  for (int open : groups_[to].open_predecessors) last = std::max(last, last_of(open)[chain]);
  return last >= from.place;
}

bool GroupReachability::before(int from, int to) const {
  if (from == to) return false;
  ++round_;
  std::vector<int> reachable = {from};
  for (std::size_t i = 0; i < reachable.size(); ++i) {
    ++work_;
    const Group& current = groups_[reachable[i]];
    if (reachable[i] == to) return true;
    if (current.open || current.chain >= 0) {
      if (current.open ? is_after_open(reachable[i], to) : comes_on_chain(current, to)) return true;
      continue;
    }
    for (int next : current.next)
      if (seen_[next] != round_) seen_[next] = round_, reachable.push_back(next);
  }
  return false;
}

}  // namespace karez::solve
