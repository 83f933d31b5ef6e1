// An array on a mesh: what a call of a compiled function returns and the next call may take, without a trip over the
// host.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "karez/api/tensor.h"

namespace karez {

struct ArrayValue;

// One result of one call. It is there at once, while the call still runs; what asks for bytes waits for it, and throws
// what went wrong in it. Its bytes lie on the devices of its mesh, in its layout, until the last copy of it goes
// (World::held_bytes counts them). Copies are the same array; nothing writes to it. It may outlive the function that
// made it, and a World::reset. It keeps no world alive: when the last World, mesh, function and future of its world are
// gone, it can only be destroyed; all else is an error.
class Array {
 public:
  Array() = default;
  explicit Array(std::shared_ptr<const ArrayValue> value) : value_(std::move(value)) {}  // made by Future::value

  bool valid() const { return value_ != nullptr; }
  const TensorType& type() const;  // the logical one
  const Layout& layout()
      const;  // one entry for each axis of the mesh: Broadcast, unless the function returned a tensor of `with_layout`
  const Mesh& mesh() const;

  bool done() const;  // the call that makes it is over
  void wait() const;
  // The whole tensor: of what is Broadcast one device's copy, of what is split all parts. With several ranks, what does
  // not lie whole on every one is brought by a launch: all ranks must read it then.
  HostArray read(SourceLine where = SourceLine::current()) const;
  std::vector<HostArray> local()
      const;  // the part of each device of this rank, in the order of the devices' numbers; asks no other rank
  // The bytes of a device of this rank that has the whole, row-major, where they lie: nobody writes them, and they live
  // as long as the pointer, the world's end included. Waits. Null: the array is split, or Partial.
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
