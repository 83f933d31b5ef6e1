// What a transition costs on one mesh axis at least, whatever the other axes do meanwhile: a bound on trees that are
// too many to price.
#pragma once

#include <map>
#include <vector>

#include "karez/sbp/cost.h"
#include "karez/sbp/namespace.h"
#include "karez/sbp/sbp.h"

namespace karez::sbp {

// Every step of a tree changes the entry of one axis, so the steps of one axis lead from its entry of the start to its
// entries of all targets. A step costs no less than on the parts that the other axes may leave to its group. So the
// floors of all axes together are at most the tree's price.
class AxisLowerBounds {
 public:
  AxisLowerBounds(const TensorType& type, const Mesh& mesh, const CostTable& costs);

  static constexpr unsigned none = 0;
  unsigned with(unsigned set, Sbp entry) const { return set | 1U << number(entry); }  // one more entry that is wanted
  double seconds(int axis, Sbp from, unsigned wanted);

 private:
  // Least seconds from each entry to all of a set.
  using Trees = std::map<unsigned, std::vector<double>>;

  int number(Sbp entry) const;
  const std::vector<double>& tree(int axis, unsigned wanted);

  int rank_;
  std::vector<std::vector<std::vector<double>>> distances_;  // by axis and both entries
  std::vector<Trees> trees_;                                 // by axis
};

}  // namespace karez::sbp
