// A device as the runtime sees it: memory and ways in and out of it. The cpu now; cuda behind the same face.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "karez/device/arena.h"
#include "karez/device/memory.h"
#include "karez/device/namespace.h"

namespace karez::device {

// Work on a stream is done in the order it was given. On the cpu it is done when the call returns; elsewhere it is only
// enqueued, and the next act on the same stream may begin at once while anybody else waits for `finished`.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  virtual bool finished() const = 0;  // all that was enqueued
  virtual void wait() = 0;
};

class Device {
 public:
  Device(std::string name, std::string kind) : name_(std::move(name)), kind_(std::move(kind)) {}
  virtual ~Device() = default;

  const std::string& name() const { return name_; }  // "0.1": rank and device
  const std::string& kind() const { return kind_; }  // "cpu"
  MemoryCounters& memory() const { return *counters_; }

  MemoryCounters& value_memory() const { return *value_counters_; }

  // Zeroed, 64-byte aligned, counted: for a plan or a variable; for a value that the user keeps, which is counted
  // apart.
  Memory allocate(std::int64_t bytes) { return allocate(bytes, counters_); }
  Memory allocate_value(std::int64_t bytes) { return allocate(bytes, value_counters_); }
  Arena& arena() { return arena_; }  // that plans share, counted as they are

  virtual void write(std::byte* on_device, const std::byte* on_host, std::int64_t bytes) = 0;
  virtual void read(std::byte* on_host, const std::byte* on_device, std::int64_t bytes) = 0;
  virtual std::unique_ptr<DeviceStream> make_stream() = 0;

 protected:
  virtual Memory allocate(std::int64_t bytes, std::shared_ptr<MemoryCounters> counters) = 0;

 private:
  std::shared_ptr<MemoryCounters> counters_ = std::make_shared<MemoryCounters>(),
                                  value_counters_ = std::make_shared<MemoryCounters>();
  Arena arena_{counters_};
  std::string name_, kind_;
};

// Kinds: "cpu". Another one is an error that lists them.
std::unique_ptr<Device> make_device(std::string name, std::string_view kind);

}  // namespace karez::device
