// A device for the runtime: memory, copies to and from it, and streams. The only kind now is "cpu"; CUDA would
// implement the same interface.
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

// A stream runs its work in order. On the CPU work is done when the call returns; elsewhere it is only enqueued, and
// the next act on the same stream may begin at once, while other streams wait for `finished`.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  virtual bool finished() const = 0;  // all enqueued work
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

  // Zeroed, 64-byte aligned and counted memory: `allocate` for a plan or a variable, `allocate_value` for a value that
  // the user keeps, which has counters of its own.
  Memory allocate(std::int64_t bytes) { return allocate(bytes, counters_); }
  Memory allocate_value(std::int64_t bytes) { return allocate(bytes, value_counters_); }
  Arena& arena() { return arena_; }  // shared by plans, counted like their memory

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

// Kinds: "cpu". An unknown kind is an error that lists them.
std::unique_ptr<Device> make_device(std::string name, std::string_view kind);

}  // namespace karez::device
