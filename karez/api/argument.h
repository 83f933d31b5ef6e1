// Arguments of compiled functions.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "karez/api/array.h"
#include "karez/api/names.h"
#include "karez/api/tensor.h"

namespace karez {

namespace data {
class BatchRows;
}

// An argument of a compiled function: an array on the mesh (a result of another call), a host array, a number (a scalar
// tensor), or a batch that the plan reads from a source. Each device reads its own part of an array on the mesh. The
// layout of the array belongs to the signature, and the call that makes the array may still be running. The bytes of a
// host array are copied before the call returns, so the caller may then overwrite them. A host array that is moved into
// the argument and has no other owner is donated: its bytes are not copied. Sources and arrays have different
// signatures, because the next batch of a source is read while a launch runs, which needs memory for a second batch.
struct Argument {
  // Each constructor sets exactly one of these three.
  Feed feed;
  HostArray array;
  Array on_mesh;
  std::shared_ptr<data::BatchRows> batch_rows = {};  // makes rows that `array` lacks; usually null
  bool donated = false;
  bool part = false;      // `array` is this rank's part, see `local`
  std::int64_t rows = 0;  // number of rows of the global array

  Argument(Feed batch) : feed(std::move(batch)) {}
  Argument(const HostArray& shared) : array(shared) {}
  Argument(HostArray&& owned) : array(std::move(owned)), donated(array.unique()) {}
  Argument(Array value) : on_mesh(std::move(value)) {}
  // Takes a tensor outside of a trace and starts the computation of its array; host bytes are read in place.
  Argument(const Tensor& tensor, SourceLine where);
  Argument(float value) : Argument(HostArray::of<float>({}, {value})) {}
  Argument(double value) : Argument(HostArray::of<double>({}, {value})) {}
};

// Makes an argument from this rank's rows of a global array. The rows (dimension 0) of the global array are split along
// the first axes of the mesh, and `array` contains the rows that this rank's devices hold. `rows` is the number of rows
// of the global array. Without `rows`, every rank of the mesh has the same number of rows, in the order of the ranks.
// With `rows`, ranks may share rows (on data=2,model=2 with one device per rank, `rows` is twice the number of rows of
// a part) or differ by one row (5 rows on two ranks: 3 and 2). A part of the wrong size is an error that lists the
// possible sizes. In a world of one rank the array is the global array.
//   Placements: if the function has placements, the mesh is that of the placement that reads the argument. Arrays of
//   ranks without a device of this mesh are not read, but their shapes must be correct.
//   Micro-batches: each takes an equal number of rows from each device, one device after another, so that no rows are
//   transferred. Losses, gradients and results are those of the global batch, and the rows of results are in the order
//   of the global batch. Only dropout drops different elements. It is an error if the rows cannot be divided equally
//   among devices and micro-batches, or if the body depends on the position of a row in the batch.
Argument local(HostArray array, std::int64_t rows = 0);

}  // namespace karez
