// Functions that return the mesh and layout of a value and its parts on this rank, or make an array from such parts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "karez/api/array.h"
#include "karez/api/world.h"
#include "karez/sbp/partition_spec.h"

namespace karez {

// The mesh and layout that a value has, or will have after its computation. A host value has no mesh and an empty
// layout.
struct Place {
  std::optional<DeviceMesh> mesh;
  Layout layout;  // as requested; entries are kept even for mesh axes of size 1
};
Place place_of(const Array& array);  // throws if the array's world no longer exists
// Returns the place of a tensor outside of a trace, without computing the tensor or involving other ranks. There is one
// exception: if the planner still has to choose the layout (docs/layouts.md), the value is computed, as for a read.
Place place_of(const Tensor& tensor, SourceLine where = SourceLine::current());
Place place_of(const World& world, const Parameter& parameter);  // throws if no function has used the parameter
// Returns the mesh of a tensor outside of a trace, without computing the tensor; nullopt for a host value.
std::optional<DeviceMesh> mesh_of(const Tensor& tensor);

// Returns a tensor's array for use by another library; the tensor is computed as for a read. If the planner chose a
// layout that splits the array, the array is gathered on the devices. A layout that the user chose is kept.
Array computed_whole(const Tensor& tensor, SourceLine where = SourceLine::current());

// One device's part of a value.
struct LocalData {
  sbp::DeviceName device;
  sbp::Box box;  // within the global array; for a Partial value, the region of the device's summand
  HostArray data;
};
// Returns the parts on this rank's devices, in the order of the mesh. Waits for the call that makes the array, but does
// not involve other ranks.
std::vector<LocalData> local_parts(const Array& array);

// Shape and dtype of the global array that from_parts makes. By default, the dtype is that of the parts. The default
// size of a dimension is computed as follows: if this rank holds the complete dimension, it is the sum of the sizes of
// this rank's distinct parts; otherwise every device is assumed to hold as much of the dimension as this rank's
// devices.
struct WholeType {
  std::optional<Shape> shape = {};
  std::optional<DType> dtype = {};
};
// Makes an array from its parts: one for each of this rank's devices, in the order of the mesh. Each rank passes the
// parts on its own devices, independently of other ranks. Devices that hold the same part must get equal bytes, which
// is checked within the rank. The layout may be Partial: the global array is then the sum (or max, min) of the parts. A
// rank without a device of the mesh passes no parts, but must pass shape and dtype. A part of the wrong shape is an
// error.
Array from_parts(std::vector<HostArray> parts, const DeviceMesh& mesh, Layout layout, const WholeType& whole = {});

// Returns the value of a term outside of a trace on this mesh, with its dimensions split by the named axes. The value
// is also computed on this mesh, unless it already has a mesh.
Tensor laid_on(Term x, const DeviceMesh& mesh, const std::vector<std::string>& axes);

}  // namespace karez
