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

// A client's lock on a variable. Worker 0 grants it, between two acts, when the earlier launches that conflict with it
// are over. `read` and `write` wait until the lock is granted. Later launches that conflict with it wait for its
// release. So a thread that holds a lock must not wait for later launches, and must not do anything that may wait for
// them: call `load`, `reload` or `counters`, or make more than `in_flight` launches.
class VariableLock {
 public:
  ~VariableLock();
  VariableLock(VariableLock&&) noexcept;
  VariableLock& operator=(VariableLock&&) = delete;

  std::vector<HostArray> read() const;                     // returns each part in row-major order
  void write(const std::vector<HostArray>& values) const;  // the bytes between strided elements keep their values

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
