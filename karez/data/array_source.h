// An array in host memory as a source, the same batch at every position; and copies of arrays as sources. How a value
// that the user holds enters a plan.
#pragma once

#include <cstdint>
#include <memory>

#include "karez/data/namespace.h"
#include "karez/data/source.h"
#include "karez/device/host_array.h"

namespace karez::data {

std::shared_ptr<const Source> array_source(HostArray array);  // shares its bytes

// Sources that hold copies of arrays, in memory that is used again: when nobody holds a source any more, the next array
// that fits takes its bytes. From any thread; sources may outlive it.
class ArrayCopyPool {
 public:
  ArrayCopyPool();
  std::shared_ptr<const Source> copy(const HostArray& array);
  std::int64_t allocated() const;     // blocks of memory, since it began
  std::int64_t pooled_bytes() const;  // bytes that lie ready or in use

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace karez::data
