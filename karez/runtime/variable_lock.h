// A client's lock on a variable of a session.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "karez/device/host_array.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

class Session;
struct LaunchRecord;

// A client's lock on a variable: granted when the earlier launches that conflict with it are over; later launches
// wait for its release. Reading and writing wait until it is granted. Worker 0 grants it, between two acts. A thread
// that holds a lock must not wait for later launches (nor make more than `in_flight`, load, reload or count), because
// they may wait for the lock.
class VariableLock {
 public:
  ~VariableLock();
  VariableLock(VariableLock&&) noexcept;
  VariableLock& operator=(VariableLock&&) = delete;

  std::vector<HostArray> read() const;                     // each part row-major, whatever its strides
  void write(const std::vector<HostArray>& values) const;  // bytes between strided elements are kept

 private:
  friend class Session;
  struct Shard;
  VariableLock(std::shared_ptr<LaunchRecord> record, std::string_view name, std::vector<Shard> parts);
  void wait() const;
  std::shared_ptr<LaunchRecord> record_;
  std::string name_;
  std::vector<Shard> parts_;
};

}  // namespace karez::runtime
