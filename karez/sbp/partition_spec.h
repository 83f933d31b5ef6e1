// Partition specs: layouts given as the mesh axes that split each dimension, or as the dimension that each mesh axis
// splits.
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

// {"model", ""} for rank 2 on mesh(data=2, model=2) is (B, S(0)); "data+model" splits one dimension on both axes.
// Dimensions with the entry "" or without an entry are not split. Errors: more dimensions than `rank`, an unknown axis,
// an axis given twice, and "model+data", since splits nest in the order of the mesh's axes. Error texts begin with
// `what`, such as "a layout for f32[10, 784]".
Layout layout_from(const std::vector<std::string>& spec, int rank, const Mesh& mesh, std::string_view what);
// {{"model", -1}} for rank 2 is (B, S(1)); other axes split nothing. Errors as above, and a dimension out of range.
Layout layout_from(const std::vector<AxisSplit>& splits, int rank, const Mesh& mesh, std::string_view what);

// The inverse of layout_from, with one entry per dimension. Partial entries of the layout are not represented.
std::vector<std::string> partition_spec_of(const Layout& layout, int rank, const Mesh& mesh);

}  // namespace karez::sbp
