// A user's rule for the stored layout of variables: which axes of the mesh split their dimensions, by glob over their
// names.
#pragma once

#include <string>
#include <vector>

#include "karez/sbp/namespace.h"
#include "karez/sbp/partition_spec.h"

namespace karez::sbp {

struct LayoutRule {
  std::string pattern;  // "fc*.weight", or "block0" for all below it; see karez/base/glob.h
  std::vector<std::string>
      axes;  // per dimension: the mesh axis that splits it ("model", "data+model" for both), or "" for none
  std::vector<AxisSplit> splits =
      {};  // or by axes of the mesh: {"fc*.weight", {}, {{"model", -1}}} splits the last dimension, whatever the rank
};

}  // namespace karez::sbp
