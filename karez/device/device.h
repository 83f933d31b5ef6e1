// A device of the runtime: memory, copies between host and device, and streams. The only kind is "cpu"; CUDA would
// implement the same interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "karez/device/arena.h"
#include "karez/device/free_blocks.h"
#include "karez/device/memory.h"
#include "karez/device/namespace.h"

namespace karez::device {

// A stream runs its work in order. On the CPU, work is finished when the call returns. On other devices, work is only
// enqueued: the next act on the same stream may begin at once, while other streams wait for `finished`.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  virtual bool finished() const = 0;  // whether all enqueued work is finished
  virtual void wait() = 0;
};

class Device {
 public:
  Device(std::string name, std::string kind) : name_(std::move(name)), kind_(std::move(kind)) {
    value_counters_->free_blocks = std::make_shared<FreeBlocks>();
  }
  virtual ~Device() = default;

  const std::string& name() const { return name_; }  // rank and number of the device: "0.1"
  const std::string& kind() const { return kind_; }  // "cpu"
  MemoryCounters& memory() const { return *counters_; }

  MemoryCounters& value_memory() const { return *value_counters_; }

  // Both functions allocate 64-byte aligned and counted memory: allocate() zeroed memory for a plan or a variable,
  // allocate_value() uninitialised memory for a value that the user keeps, which is counted separately. Freed memory of
  // values is kept for later values (free_blocks.h).
  Memory allocate(std::int64_t bytes) { return allocate(bytes, counters_); }
  Memory allocate_value(std::int64_t bytes) { return allocate(bytes, value_counters_); }
  Arena& arena() { return arena_; }  // shared by plans and counted as their memory

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

// Makes a device of a kind. Throws for an unknown kind, and lists the known ones: "cpu".
std::unique_ptr<Device> make_device(std::string name, std::string_view kind);

}  // namespace karez::device
