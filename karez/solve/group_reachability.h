// Reachability between groups of nodes, while the nodes of a graph are put into groups one after another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "karez/solve/chains.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// Each node has a larger number than the nodes for which it waits, and nodes are put into groups in ascending order. A
// group waits for the groups of all nodes for which its nodes wait. Groups must not wait for each other in a cycle;
// call `before` to check this before `put`. Several groups may be open at a time; no node can be put into a closed
// group.
//
// For every long chain of nodes (chains.h), each group stores the last place on the chain that precedes the group or is
// in it. An open group lists the groups after it; they inherit its places when it is closed. Groups without a node on a
// chain are traversed; such paths are short. Time and memory grow as (nodes + edges) times chains, and as open groups
// times the groups after them.
//
//   nodes a -> b -> c, a -> d; groups {a d} {b} {c}: before(0, 1), before(0, 2) and before(1, 2) are true
class GroupReachability {
 public:
  explicit GroupReachability(
      std::vector<std::vector<int>> waits_for);  // by node: the nodes for which it waits, which have smaller numbers

  int begin();  // opens a new group
  void put(int node, int group);
  void close(int group);

  // Returns whether `to` is reachable from `from` along the waits added so far. No group comes before itself.
  bool before(int from, int to) const;

  std::int64_t work() const { return work_; }  // chain places and groups visited

 private:
  struct Group {
    bool open = true;
    int chain = -1, place = 0;           // chain and place of its first node that is on a chain
    std::vector<int> next;               // groups that wait for this one directly
    std::vector<int> open_predecessors;  // open groups before this one
    std::vector<int> later_groups;       // if this group is open: the groups after it
  };
  const int* last_of(int group) const {
    return &last_[static_cast<std::size_t>(group) * static_cast<std::size_t>(chains_.count())];
  }
  void inherit(int group, int from);
  void add_open_predecessor(int open, int group);
  bool is_after_open(int open, int group) const;
  bool comes_on_chain(const Group& from, int to) const;

  std::vector<std::vector<int>> waits_for_;
  Chains chains_;
  std::vector<Group> groups_;
  std::vector<int> group_of_;  // group by node
  std::vector<int>
      last_;  // by group and chain: the last place before the group or in it, without paths through open groups
  mutable std::vector<int> seen_;
  mutable int round_ = 0;
  mutable std::int64_t work_ = 0;
};

}  // namespace karez::solve
