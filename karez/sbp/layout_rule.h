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
  // For each dimension: the mesh axis that splits it ("model", or "data+model" for two axes), or "" for none.
  std::vector<std::string> axes;
  // An alternative to `axes`, by mesh axis: {"fc*.weight", {}, {{"model", -1}}} splits the last dimension at any rank.
  std::vector<AxisSplit> splits = {};
};

}  // namespace karez::sbp
