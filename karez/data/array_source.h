// Sources that pass an array in host memory to a plan. The array is shared or copied, and is the batch at every
// position.
#pragma once

#include <cstdint>
#include <memory>

#include "karez/data/namespace.h"
#include "karez/data/source.h"
#include "karez/device/host_array.h"

namespace karez::data {

std::shared_ptr<const Source> array_source(HostArray array);  // shares its bytes

// Makes sources that own copies of arrays, in reused memory: when the last handle of a source is destroyed, the next
// array that fits uses its memory. May be called from any thread; sources may outlive the pool.
class ArrayCopyPool {
 public:
  ArrayCopyPool();
  std::shared_ptr<const Source> copy(const HostArray& array);
  std::int64_t allocated() const;     // blocks allocated so far
  std::int64_t pooled_bytes() const;  // bytes of idle and used blocks

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace karez::data
