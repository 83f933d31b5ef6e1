// Memory for the batches of a stage, which is used again when a batch is no longer used.
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
  ArrayPool();
  // An array whose bytes are those of an earlier array of the same size, if there is an idle one, and otherwise zeros.
  HostArray allocate(TensorType type);
  std::int64_t allocated() const;  // blocks allocated so far

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace karez::data
