// Words for a layout: per dimension, the mesh axes that split it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sbp/sbp.h"

namespace karez::sbp {

// {"model", ""} for rank 2 on mesh(data=2, model=2) is (B, S(0)); "data+model" splits one dimension on both axes; "" and dimensions behind the
// last one named are not split. Errors: more dimensions than `rank`, an axis that the mesh does not have, one that is named twice; they begin
// with `what`, "a layout for f32[10, 784]".
Layout layout_from(const std::vector<std::string>& words, int rank, const Mesh& mesh, std::string_view what);

}  // namespace karez::sbp
