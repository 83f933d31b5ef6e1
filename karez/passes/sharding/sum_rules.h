// Which Partial sums may pass through an op: exact zeros must not meet an infinity, a NaN or a divisor of 0.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// A Partial sum is *masked* where its parts are the element itself on one device and 0 on all others: of a gather whose
// rows are split, or made from a whole value. It is *dense* where every part is a sum of its own: of a product whose
// summed dimension is split. A product passes dense sums whatever it multiplies by (an infinity in a factor may so
// become NaN, see docs/layouts.md), masked ones only by constants that are finite:
//   gather(table S(0), i) P  *  mask B      0 * inf is NaN: not legal, the sum comes first
//   matmul(x S(1), w S(0)) P  *  mask B     legal
//   matmul(...) P  +  bias P                dense: one operand is enough
//   concat(gather(...) P, matmul(...) P)    masked: each element is one operand's, so all would have to be dense
//
// What an op passes, on all axes where the same operands are Partial. It is legal where what `operands` bring is dense:
// one of them, or `all`. This is asked of products, and of all that stands before one: a value that can be dense is so
// whenever it passes on there, so that what follows needs to look no further than at the op before it.
struct SumPass {
  std::vector<int> operands;  // that can be dense; none: what comes out is masked
  std::vector<int> axes;
  bool all = false;
  bool operator==(const SumPass&) const = default;
};

// What becomes of sums in a node laid in one way.
struct Sums {
  bool masked = false;  // the node makes masked sums itself
  std::vector<SumPass> passes;
  bool operator==(const Sums&) const = default;

  bool matter() const { return masked || !passes.empty(); }
  bool can_be_dense() const;  // what comes out, where all that is asked of the operands holds
};

// Of the ops of one graph.
class SumRules {
 public:
  explicit SumRules(const Graph& graph);

  // In a way to lay the node, layouts by operand and by result; nothing where a product would pass sums that cannot be
  // dense.
  std::optional<Sums> in(NodeId node, std::span<const Layout> ins, std::span<const Layout> outs) const;

 private:
  struct Group {
    std::vector<int> operands, dense;  // all; those that can be dense
    bool product = false;              // by what is not known to be finite
    bool picks = false;                // each element is one operand's: all must be dense, or what comes out is masked
  };
  struct OfNode {
    std::vector<Group> groups;
    std::vector<std::pair<int, int>>
        masked;                  // operands and their dimensions that make masked sums where they are split
    bool meets_product = false;  // what comes out may pass on to one
  };
  void add(NodeId node);  // after those of its operands

  const Graph& graph_;
  ById<NodeId, OfNode> nodes_;
  ById<ValueId, bool> dense_;  // some way to lay the program makes dense sums of it
};

}  // namespace karez::passes
