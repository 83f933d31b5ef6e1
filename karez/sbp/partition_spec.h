// Words for a layout: per dimension, the mesh axes that split it, or per mesh axis the dimension that it splits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "karez/sbp/namespace.h"
#include "karez/sbp/sbp.h"

namespace karez::sbp {

// A mesh axis and the dimension that it splits; -1 is the last one.
struct AxisSplit {
  std::string axis;
  int dim = 0;
  bool operator==(const AxisSplit&) const = default;
};

// {"model", ""} for rank 2 on mesh(data=2, model=2) is (B, S(0)); "data+model" splits one dimension on both axes; ""
// and dimensions behind the last one named are not split. Errors: more dimensions than `rank`, an axis that the mesh
// does not have, one that is named twice, and "model+data", since splits nest in the order of the mesh's axes; they
// begin with `what`, "a layout for f32[10, 784]".
Layout layout_from(const std::vector<std::string>& spec, int rank, const Mesh& mesh, std::string_view what);
// {{"model", -1}} for rank 2 is (B, S(1)); axes that are not named split nothing. Errors as above, and a dimension that
// is not there.
Layout layout_from(const std::vector<AxisSplit>& splits, int rank, const Mesh& mesh, std::string_view what);

// The words that layout_from takes back, one for each of the dimensions. Of what is Partial they say nothing.
std::vector<std::string> partition_spec_of(const Layout& layout, int rank, const Mesh& mesh);

}  // namespace karez::sbp
