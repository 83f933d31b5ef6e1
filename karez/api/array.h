// Array: the result of a call of a compiled function on its mesh, which later calls take without a copy to the host.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "karez/api/names.h"
#include "karez/api/source_line.h"

namespace karez {

struct ArrayValue;

// One result of one call. An array is available immediately, while the call still runs; functions that need the bytes
// wait for the call and throw its error. The bytes are stored on the devices of the mesh, in the array's layout, until
// the last copy of the array is destroyed (World::held_bytes counts them). Copies are the same array, and an array is
// never written. It may outlive the function that made it and a World::reset, but does not keep the world alive: after
// the last World, mesh, function and future of its world is destroyed, every use except destruction is an error.
class Array {
 public:
  Array() = default;
  explicit Array(std::shared_ptr<const ArrayValue> value) : value_(std::move(value)) {}  // made by Future::value

  bool valid() const { return value_ != nullptr; }
  const TensorType& type() const;  // the logical type
  // Has one entry for each axis of the mesh: Broadcast, unless the function returned a result of `with_layout`.
  const Layout& layout() const;
  const Mesh& mesh() const;

  bool done() const;  // whether the call that makes the array has ended
  void wait() const;
  // Returns the global array: a Broadcast array is read from one device, a split array is assembled from its parts.
  // With several ranks, an array that some rank does not hold completely is gathered by a launch, so all ranks must
  // read it.
  HostArray read(SourceLine where = SourceLine::current()) const;
  // Returns the parts of this rank's devices, in the order of the device numbers; does not involve other ranks.
  std::vector<HostArray> local() const;
  // Waits for the call and returns the row-major bytes on a device of this rank that holds the global array, without a
  // copy; null if the array is split or Partial. The bytes are never written and stay valid as long as the pointer,
  // even after the world has ended.
  std::shared_ptr<const std::byte> bytes() const;
  // Returns the only element, as a number of type T.
  template <class T = double> T item(SourceLine where = SourceLine::current()) const {
    require(type().count() == 1, "an array is ", type(), "; item reads a single element");
    const HostArray element = read(where);
    return with_type(element.dtype(), [&]<class Element>() { return static_cast<T>(element.data<Element>()[0]); });
  }

 private:
  friend struct ArrayValue;
  std::shared_ptr<const ArrayValue> value_;
};

}  // namespace karez
