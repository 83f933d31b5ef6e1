// Decides which Partial sums may pass through an op: exact zeros must not meet an infinity, a NaN or a divisor of 0.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// A Partial sum is *masked* if one device holds the element and all others hold 0, as in a gather from split rows, or
// in a sum made from a Broadcast value. It is *dense* if every device holds a true partial sum, as in a product whose
// summed dimension is split. A product may pass a dense sum whatever its other factors are (an infinity in a factor may
// then become NaN, see docs/layouts.md), but a masked sum only if the other factors are finite constants:
//   gather(table S(0), i) P  *  mask B      0 * inf is NaN: not legal, the sum is reduced first
//   matmul(x S(1), w S(0)) P  *  mask B     legal
//   matmul(...) P  +  bias P                dense: one operand is enough
//   concat(gather(...) P, matmul(...) P)    masked: each element comes from one operand, so all would have to be dense
//
// A SumPass describes the sums that an op passes, on all axes on which the same operands are Partial. The pass is legal
// if the sums of at least one of `operands` are dense or, with `all`, the sums of each of them. This is required of
// products and of all ops whose result reaches a product. If a sum can be dense, such an op passes it only if it is
// dense, so each op needs to check only the producers of its operands.
struct SumPass {
  std::vector<int> operands;  // operands that can be dense; if there are none, the result is masked
  std::vector<int> axes;
  bool all = false;
  bool operator==(const SumPass&) const = default;
};

// How a node with one choice of layouts makes and passes sums.
struct Sums {
  bool masked = false;  // the node makes masked sums itself
  std::vector<SumPass> passes;
  bool operator==(const Sums&) const = default;

  bool matter() const { return masked || !passes.empty(); }
  bool can_be_dense() const;  // whether the results can be dense if the operands meet all requirements
};

// The rules of the nodes of one graph.
class SumRules {
 public:
  explicit SumRules(const Graph& graph);

  // Returns the sums for one choice of layouts (`ins` by operand, `outs` by result); nullopt if a product would pass
  // sums that cannot be dense.
  std::optional<Sums> in(NodeId node, std::span<const Layout> ins, std::span<const Layout> outs) const;

 private:
  struct Group {
    std::vector<int> operands, dense;  // all operands; operands that can be dense
    bool product = false;              // true for a product with a factor that is not known to be finite
    bool picks = false;  // each element comes from one operand, so the result is masked unless all operands are dense
  };
  struct NodeRules {
    std::vector<Group> groups;
    std::vector<std::pair<int, int>> masked;  // operands and their dimensions that make masked sums if they are split
    bool meets_product = false;               // true if the result may reach a product
  };
  void add(NodeId node);  // call for the producers of the node's operands first

  const Graph& graph_;
  ById<NodeId, NodeRules> nodes_;
  ById<ValueId, bool> dense_;  // true if some choice of layouts makes dense sums of the value
};

}  // namespace karez::passes
