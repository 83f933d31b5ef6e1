// Where values lie: the mesh and layout of a tensor.
#pragma once

#include <optional>

#include "api/array.h"
#include "api/world.h"

namespace karez {

// Where a value lies, or where it will once it is computed. Of what the host holds there is no mesh, and an empty layout.
struct Place {
  std::optional<DeviceMesh> mesh;
  Layout layout;  // as it was asked for, also on axes of one device
};
Place place_of(const Array& array);                              // of a world that is gone: an error
Place place_of(const Tensor& tensor);                            // outside of a trace. Computes nothing and asks no other rank
Place place_of(const World& world, const Parameter& parameter);  // that a function has used; otherwise an error

}  // namespace karez
