// The cost of one value with many consumers, as chains of small tables: one chain over sets of layouts, or one chain
// per mesh axis over sets of the axis' entries.
#pragma once

#include <compare>
#include <cstddef>
#include <memory>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard_tables.h"

namespace karez::passes {

// One node in the table of one value.
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
  TransitionTable& table;
  const TableMember& producer;  // has several classes
  std::vector<const TableMember*> consumers;
  int base;   // the set of layouts that are required in any case
  int fills;  // number of times that a launch computes the value
};

// Each link is a table over the set of layouts required so far (except for the first link), the classes of one
// consumer, and the set that includes the consumer's layouts. `price` is a table over the producer and the last set, if
// there is a link.
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

// If a chain over sets could track hardly any layouts, and lower bounds are requested, it is replaced by one chain per
// mesh axis.
LayoutChains chains_of(const LayoutRequest& request, TransitionCostCache& prices, ChainOverflow overflow);

}  // namespace karez::passes
