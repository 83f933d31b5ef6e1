// The cost of one value with many consumers, as chains of small tables: one chain over sets of layouts, or for each
// mesh axis one chain over sets of entries.
#pragma once

#include <compare>
#include <cstddef>
#include <memory>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard_tables.h"

namespace karez::passes {

// A node in the cost table of one value.
struct TableMember {
  struct Class {
    int from = -1;             // the layout in which the node produces the value, if it is the producer
    std::vector<int> targets;  // the layouts in which the node requires the value
    auto operator<=>(const Class&) const = default;
  };
  int node = 0;
  std::vector<Class> classes;
  std::vector<int> class_of;  // by choice
};

// The layouts in which a value is produced and required.
struct LayoutRequest {
  const ValuePrice& price;
  const TableMember& producer;  // has several classes
  std::vector<const TableMember*> consumers;
  int base;  // the set of layouts that are required in any case
};

// Each link is a table over three variables: the set of layouts required so far (the first link has no such variable),
// the classes of one consumer, and the set that also contains the consumer's layouts. `price` is a table over the
// producer and, if there is a link, the last set.
struct LayoutChain {
  struct Link {
    std::size_t consumer;
    std::shared_ptr<const solve::CostCells> cells;
    int states;  // number of sets after the link
  };
  std::vector<Link> links;
  std::shared_ptr<const solve::CostCells> price;
};
struct LayoutChains {
  std::vector<LayoutChain> chains;  // the cost of the value is the sum of their costs
  bool exact = true;
};

// Returns one chain over sets of layouts. If that chain could track fewer than two layouts at a time and a lower bound
// suffices (ChainOverflow::free), returns one chain per mesh axis instead.
LayoutChains chains_of(const LayoutRequest& request, TransitionCostCache& prices, ChainOverflow overflow);

}  // namespace karez::passes
