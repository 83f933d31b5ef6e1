// An array on a mesh: the result of a call of a compiled function, which later calls take without a copy to the host.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "karez/api/tensor.h"

namespace karez {

struct ArrayValue;

// One result of one call. It is available immediately, while the call still runs; functions that need the bytes wait
// for the call and throw its error. The bytes are stored on the devices of its mesh, in its layout, until the last copy
// of the array is destroyed (World::held_bytes counts them). Copies are the same array, and an array is never written.
// It may outlive the function that made it and a World::reset. It does not keep the world alive: after the last World,
// mesh, function and future of its world is destroyed, every use except destruction is an error.
class Array {
 public:
  Array() = default;
  explicit Array(std::shared_ptr<const ArrayValue> value) : value_(std::move(value)) {}  // made by Future::value

  bool valid() const { return value_ != nullptr; }
  const TensorType& type() const;  // the logical type
  // One entry for each axis of the mesh: Broadcast, unless the function returned a tensor of `with_layout`.
  const Layout& layout() const;
  const Mesh& mesh() const;

  bool done() const;  // whether the call that makes it has ended
  void wait() const;
  // The whole tensor: a Broadcast array is read from one device, a split one is assembled from its parts. With several
  // ranks, a value that is not whole on every rank is gathered by a launch, so all ranks must read it.
  HostArray read(SourceLine where = SourceLine::current()) const;
  // The part of each device of this rank, in the order of the device numbers; does not involve other ranks.
  std::vector<HostArray> local() const;
  // The row-major bytes on a device of this rank that holds the whole array, without a copy. They are never written and
  // stay valid as long as the pointer, even after the world has ended. Waits. Null if the array is split or Partial.
  std::shared_ptr<const std::byte> bytes() const;
  // The only element, as a number of type T.
  template <class T = double> T item(SourceLine where = SourceLine::current()) const {
    require(type().count() == 1, "an array is ", type(), "; item reads a single element");
    const HostArray whole = read(where);
    return with_type(whole.dtype(), [&]<class Element>() { return static_cast<T>(whole.data<Element>()[0]); });
  }

 private:
  friend struct ArrayValue;
  std::shared_ptr<const ArrayValue> value_;
};

}  // namespace karez
