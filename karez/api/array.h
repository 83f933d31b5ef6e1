// Array: a result of a call of a compiled function. It stays on the mesh, and later calls take it without a copy to
// the host.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "karez/api/names.h"
#include "karez/api/source_line.h"

namespace karez {

struct ArrayValue;

// One result of one call, or an array that from_parts made. An array is available immediately, while the call still
// runs. Functions that need the bytes wait for the call and, if it fails, throw its error. The bytes are stored on the
// devices of the mesh, in the array's layout, until the last copy of the array is destroyed (World::held_bytes counts
// them). Copies refer to the same array. The contents of an array never change. An array may outlive the function that
// made it and a World::reset, but it does not keep the world alive: after the last World, mesh, function and future of
// its world is destroyed, every use except destruction is an error.
class Array {
 public:
  Array() = default;
  explicit Array(std::shared_ptr<const ArrayValue> value)
      : value_(std::move(value)) {}  // for Future::value and from_parts

  bool valid() const { return value_ != nullptr; }
  const TensorType& type() const;  // the logical type
  // Returns one entry for each axis of the mesh. All entries are Broadcast unless the function returned a result of
  // `with_layout`.
  const Layout& layout() const;
  const Mesh& mesh() const;

  bool done() const;  // whether the call that makes the array has ended
  void wait() const;
  // Returns the global array: a Broadcast array is read from one device, a split array is assembled from its parts.
  // With several ranks, if some rank does not hold the complete array, a launch gathers it, so all ranks must read it.
  HostArray read(SourceLine where = SourceLine::current()) const;
  // Returns the parts on this rank's devices, in the order of the device numbers. Does not involve other ranks.
  std::vector<HostArray> local() const;
  // Waits for the call and returns the row-major bytes of the global array on a device of this rank, without a copy.
  // Returns null if the array is split or Partial. The bytes never change and stay valid as long as the pointer exists,
  // even after the world has ended.
  std::shared_ptr<const std::byte> bytes() const;
  // Returns the only element, as a number of type T.
  template <class T = double> T item(SourceLine where = SourceLine::current()) const {
    require(type().count() == 1, "item: the array must have exactly one element, got ", type());
    const HostArray element = read(where);
    return with_type(element.dtype(), [&]<class Element>() { return static_cast<T>(element.data<Element>()[0]); });
  }

 private:
  friend struct ArrayValue;
  std::shared_ptr<const ArrayValue> value_;
};

}  // namespace karez
