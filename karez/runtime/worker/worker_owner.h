// The interface through which workers report to and query the session that owns them.
#pragma once

#include <atomic>
#include <cstdint>

#include "karez/base/error.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct LaunchRecord;
struct LoadedPlan;

class WorkerOwner {
 public:
  WorkerOwner() = default;
  WorkerOwner(const WorkerOwner&) = delete;
  WorkerOwner& operator=(const WorkerOwner&) = delete;
  virtual ~WorkerOwner() = default;

  virtual void finished(LaunchRecord& record) = 0;  // the launch has ended on this rank; the record may be freed
  // True if the launch must not run, because the session is unusable after a failure.
  virtual bool rejects(const LaunchRecord& record) const = 0;
  // True if the launch takes a result of a failed launch.
  virtual bool producer_failed(const LaunchRecord& record) const = 0;
  virtual void invalidate(std::uint64_t op) = 0;           // reports to the other ranks that the launch fails here
  virtual void grant(LaunchRecord& record) = 0;            // grants a variable lock
  virtual void on_protocol_error(const Error& error) = 0;  // all launches in flight fail with this error
  virtual void on_unloaded(LoadedPlan& loaded) = 0;  // no worker uses the plan any more; a client's thread frees it
  bool broken() const { return broken_.load(std::memory_order_relaxed); }  // true after a protocol error

 protected:
  std::atomic<bool> broken_{false};
};

}  // namespace karez::runtime
