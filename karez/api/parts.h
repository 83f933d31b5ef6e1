// Where values lie, which parts of them lie here, and values made from such.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "karez/api/array.h"
#include "karez/api/world.h"
#include "karez/sbp/partition_spec.h"

namespace karez {

// Where a value lies, or where it will once it is computed. Of what the host holds there is no mesh, and an empty
// layout.
struct Place {
  std::optional<DeviceMesh> mesh;
  Layout layout;  // as it was asked for, also on axes of one device
};
Place place_of(const Array& array);  // of a world that is gone: an error
// Outside of a trace. Computes nothing and asks no other rank, but where the planner has yet to say how the value will
// lie (docs/layouts.md): then it is computed, as for a read.
Place place_of(const Tensor& tensor, SourceLine where = SourceLine::current());
Place place_of(const World& world, const Parameter& parameter);  // that a function has used; otherwise an error
std::optional<DeviceMesh> mesh_of(const Tensor& tensor);  // outside of a trace; computes nothing. The host's: none

// A tensor's array, computed as for a read, for another library: what the planner has divided, and no user has laid, is
// put together on the devices.
Array computed_whole(const Tensor& tensor, SourceLine where = SourceLine::current());

// What one device has of a value.
struct LocalData {
  sbp::DeviceName device;
  sbp::Box box;  // of the whole; where the value is Partial, what it has a summand of
  HostArray data;
};
// Of each device of this rank that has some, in the order of its mesh. Waits for the call that makes it, and asks no
// other rank.
std::vector<LocalData> local_parts(const Array& array);

// A value whose parts are these: one for each of this rank's devices, in the order of the mesh; each rank gives its
// own, and asks no other. Devices that have the same of it get the same bytes, which is checked within the rank. The
// layout may be Partial: the whole is then the sum (or max, min) of the parts. What the whole is:
//   shape given      that
//   not given        what the parts make, where this rank has all of a split dimension; otherwise every device has as
//   much of it as this rank's
// A rank without a device of the mesh gives no part, and says the whole's type by shape and dtype. Parts of other
// shapes are errors.
struct WholeType {
  std::optional<Shape> shape = {};
  std::optional<DType> dtype = {};
};
Array from_parts(std::vector<HostArray> parts, const DeviceMesh& mesh, Layout layout, const WholeType& whole = {});

// Outside of a trace: the value, laid on this mesh by the names of the axes that split its dimensions. What makes it is
// computed there too, as far as it lies nowhere yet.
Tensor laid_on(Term x, const DeviceMesh& mesh, const std::vector<std::string>& words);

}  // namespace karez
