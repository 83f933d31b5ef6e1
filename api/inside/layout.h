// From the user's words for a layout, one axis name per dimension, to one entry per mesh axis.
#pragma once

#include <string>
#include <vector>

#include "api/names.h"

namespace karez {

// {"model", ""} for f32[10, 784] on mesh(data=2, model=2) is (B, S(0)); "data+model" splits one dimension on both axes;
// dimensions behind the last one named are not split. Errors: more dimensions than there are, an axis the mesh does not have, one named twice.
Layout layout_of(const TensorType& type, const Mesh& mesh, const std::vector<std::string>& axes);

}  // namespace karez
