// Which group always comes before which other, while groups take the nodes of a graph one after the other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "karez/solve/chains.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// Nodes are numbered so that each comes behind those that it waits for, and are put into groups in that order. A group
// waits for all that its nodes wait for; those in other groups close no circle of groups (ask `before` first). Several
// groups may be open at a time; a closed one takes no more.
//
// Each group knows of every long chain of nodes (chains.h) the last place that comes before it or lies in it. Those
// behind an open group are listed with it and take over what it knows when it is closed. Groups on no chain are walked
// over: what is left are short ways. Time and memory grow with nodes and edges times chains, and with open groups times
// those behind them.
//
//   nodes a -> b -> c, a -> d; groups {a d} {b} {c}: before(0, 1), before(0, 2), before(1, 2)
class GroupReachability {
 public:
  explicit GroupReachability(std::vector<std::vector<int>> waits_for);  // by node: smaller ones

  int begin();  // a group, which is open
  void put(int node, int group);
  void close(int group);

  // Along all ways there are by now. No group comes before itself.
  bool before(int from, int to) const;

  std::int64_t work() const { return work_; }  // places of chains and groups looked at

 private:
  struct Group {
    bool open = true;
    int chain = -1, place = 0;           // the first of its nodes on some chain
    std::vector<int> next;               // who waits for it directly
    std::vector<int> open_predecessors;  // open groups that come before it
    std::vector<int> later_groups;       // of an open one
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
  std::vector<int> of_;  // by node
  std::vector<int>
      last_;  // by group and chain: the last place before it or in it, but for what comes by way of open groups
  mutable std::vector<int> seen_;
  mutable int round_ = 0;
  mutable std::int64_t work_ = 0;
};

}  // namespace karez::solve
