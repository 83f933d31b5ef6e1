// The cost of one value with many consumers, as chains of small tables: one chain over sets of layouts, or one per mesh
// axis over sets of its entries.
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
    int from = -1;             // the layout in which it produces the value, if it is the producer
    std::vector<int> targets;  // the layouts in which it requires the value
    auto operator<=>(const Class&) const = default;
  };
  int node = 0;
  std::vector<Class> classes;
  std::vector<int> class_of;  // by choice
};

// The layouts in which a value is produced and required.
struct LayoutRequest {
  TransitionTable& table;
  const TableMember& producer;  // with several classes
  std::vector<const TableMember*> consumers;
  int base;   // the set of layouts that are required in any case
  int times;  // how often a launch computes it
};

// Each link joins the set of layouts required so far (except the first link), this consumer's classes, and the set that
// includes its layouts. `price` is a table over the producer and the last set, if there is a link.
struct LayoutChain {
  struct Link {
    std::size_t consumer;
    std::shared_ptr<const solve::CostCells> cells;
    int states;  // number of sets after it
  };
  std::vector<Link> links;
  std::shared_ptr<const solve::CostCells> price;
};
struct LayoutChains {
  std::vector<LayoutChain> chains;  // their costs add up
  bool exact = true;
};

// If a chain over sets could track hardly any layouts, and lower bounds are requested, one chain per mesh axis replaces
// it.
LayoutChains chains_of(const LayoutRequest& asking, TransitionCostCache& prices, ChainOverflow overflow);

}  // namespace karez::passes
