// The price of one value of many consumers, as chains of small tables: one over sets of layouts, or one a mesh axis
// over sets of its entries.
#pragma once

#include <compare>
#include <cstddef>
#include <memory>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard_tables.h"

namespace karez::passes {

// One node as the table of one value sees it.
struct TableMember {
  struct Class {
    int from = -1;             // the layout it gives the value, if it is the producer
    std::vector<int> targets;  // the layouts it wants the value in
    auto operator<=>(const Class&) const = default;
  };
  int node = 0;
  std::vector<Class> classes;
  std::vector<int> class_of;  // by choice
};

// What a value asks of its transfers.
struct LayoutRequest {
  TransitionTable& table;
  const TableMember& producer;  // of several classes
  std::vector<const TableMember*> consumers;
  int base;   // the set that is wanted anyway
  int times;  // that it is made in a launch
};

// Before each link stands the set wanted so far, except before the first, and behind it the set with what this consumer
// wants. The price is one of the producer and the last set, if there is a link.
struct LayoutChain {
  struct Link {
    std::size_t consumer;
    std::shared_ptr<const solve::CostCells> cells;
    int states;  // behind it
  };
  std::vector<Link> links;
  std::shared_ptr<const solve::CostCells> price;
};
struct LayoutChains {
  std::vector<LayoutChain> chains;  // their prices add up
  bool exact = true;
};

// Where a chain over sets would remember next to nothing, and lower bounds are asked for, there is one a mesh axis in
// its place.
LayoutChains chains_of(const LayoutRequest& asking, TransitionCostCache& prices, ChainOverflow overflow);

}  // namespace karez::passes
