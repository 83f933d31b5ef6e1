// A user's rule for the stored layout of variables: a glob pattern over their names, and the mesh axes that split their
// dimensions.
#pragma once

#include <string>
#include <vector>

#include "karez/sbp/namespace.h"
#include "karez/sbp/partition_spec.h"

namespace karez::sbp {

struct LayoutRule {
  std::string pattern;  // "fc*.weight", or "block0" for all names below it; see karez/base/glob.h
  std::vector<std::string>
      axes;  // per dimension: the mesh axis that splits it ("model", "data+model" for both), or "" for none
  std::vector<AxisSplit> splits =
      {};  // alternatively by mesh axis: {"fc*.weight", {}, {{"model", -1}}} splits the last dimension at any rank
};

}  // namespace karez::sbp
