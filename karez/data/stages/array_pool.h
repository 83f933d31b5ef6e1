// Memory for the arrays of a stage, such as batches, which is used again when an array is no longer used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "karez/data/namespace.h"
#include "karez/device/host_array.h"

namespace karez::data {

// May be used by several threads. Arrays may outlive the pool.
class ArrayPool {
 public:
  // Keeps at most this number of idle blocks, and frees those that the last 64 allocations have not needed.
  explicit ArrayPool(std::size_t max_idle = 8);
  // An array whose bytes are those of an earlier array of the same size, if there is an idle one, and otherwise zeros.
  HostArray allocate(TensorType type);
  std::int64_t allocated() const;  // blocks allocated so far

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace karez::data
