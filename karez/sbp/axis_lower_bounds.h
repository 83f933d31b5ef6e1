// Lower bounds on the cost of a transition on one mesh axis, for any layout on the other axes. They are used where
// computing the cost of every transition tree would take too long.
#pragma once

#include <map>
#include <vector>

#include "karez/sbp/cost.h"
#include "karez/sbp/namespace.h"
#include "karez/sbp/sbp.h"

namespace karez::sbp {

// Every step of a tree changes the entry of one axis, so the steps of one axis form a tree from its entry at the start
// to its entries in all targets. A step costs at least its minimum over all splits of the other axes. Therefore the sum
// of the bounds of all axes is at most the cost of the tree.
class AxisLowerBounds {
 public:
  AxisLowerBounds(const TensorType& type, const Mesh& mesh, const CostTable& costs);

  static constexpr unsigned none = 0;
  unsigned with(unsigned set, Sbp entry) const { return set | 1U << number(entry); }  // the set with one more entry
  // Returns a lower bound in seconds for reaching all entries of the set `targets` from `from`.
  double seconds(int axis, Sbp from, unsigned targets);

 private:
  // By set of entries: the minimum seconds from each entry to all entries of the set.
  using Trees = std::map<unsigned, std::vector<double>>;

  int number(Sbp entry) const;
  const std::vector<double>& tree(int axis, unsigned targets);

  int rank_;
  std::vector<std::vector<std::vector<double>>> distances_;  // by axis, start entry and end entry
  std::vector<Trees> trees_;                                 // by axis
};

}  // namespace karez::sbp
