// The mesh and layout of values, the parts of them on this rank, and values made from such parts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "karez/api/array.h"
#include "karez/api/world.h"
#include "karez/sbp/partition_spec.h"

namespace karez {

// The mesh and layout of a value, or those it will have after its computation. A host value has no mesh and an empty
// layout.
struct Place {
  std::optional<DeviceMesh> mesh;
  Layout layout;  // as requested, also on axes of one device
};
Place place_of(const Array& array);  // an error if its world no longer exists
// For tensors outside of a trace. Computes nothing and does not involve other ranks, unless the planner has yet to
// choose the layout (docs/layouts.md): then the value is computed, as for a read.
Place place_of(const Tensor& tensor, SourceLine where = SourceLine::current());
Place place_of(const World& world, const Parameter& parameter);  // an error if no function has used it
std::optional<DeviceMesh> mesh_of(const Tensor& tensor);  // outside of a trace; computes nothing; none for a host value

// A tensor's array for another library, computed as for a read. If the planner chose a layout that splits it, the array
// is gathered on the devices; a layout that the user chose is kept.
Array computed_whole(const Tensor& tensor, SourceLine where = SourceLine::current());

// One device's part of a value.
struct LocalData {
  sbp::DeviceName device;
  sbp::Box box;  // within the whole; for a Partial value, the region of its summand
  HostArray data;
};
// The part of each device of this rank that has one, in the order of its mesh. Waits for the call that makes the array;
// does not involve other ranks.
std::vector<LocalData> local_parts(const Array& array);

// An array with these parts: one for each of this rank's devices, in the order of the mesh. Each rank gives its own
// parts, independently of the others. Devices that hold the same part must get equal bytes, which is checked within the
// rank. The layout may be Partial: the whole is then the sum (or max, min) of the parts. The shape of the whole:
//   shape given      that shape
//   not given        the parts together, if this rank has all of a split dimension; otherwise every device has as much
//   of it as this rank's devices
// A rank without a device of the mesh gives no part, and must give shape and dtype. Parts of other shapes are errors.
struct WholeType {
  std::optional<Shape> shape = {};
  std::optional<DType> dtype = {};
};
Array from_parts(std::vector<HostArray> parts, const DeviceMesh& mesh, Layout layout, const WholeType& whole = {});

// Outside of a trace: the value on this mesh, split by the named axes of its dimensions. The value is computed on that
// mesh too, unless it already has a mesh.
Tensor laid_on(Term x, const DeviceMesh& mesh, const std::vector<std::string>& words);

}  // namespace karez
