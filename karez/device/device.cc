// The CPU as a device: its memory is that of the host, and work is finished when a call returns.
#include "karez/device/device.h"

#include "karez/base/copy_bytes.h"
#include "karez/base/error.h"

namespace karez::device {
namespace {

class CpuStream final : public DeviceStream {
 public:
  bool finished() const override { return true; }
  void wait() override {}
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(std::string name) : Device(std::move(name), "cpu") {}
  void write(std::byte* on_device, const std::byte* on_host, std::int64_t bytes) override {
    move(on_device, on_host, bytes);
  }
  void read(std::byte* on_host, const std::byte* on_device, std::int64_t bytes) override {
    move(on_host, on_device, bytes);
  }
  std::unique_ptr<DeviceStream> make_stream() override { return std::make_unique<CpuStream>(); }

 private:
  Memory allocate(std::int64_t bytes, std::shared_ptr<MemoryCounters> counters) override {
    return allocate_host(bytes, std::move(counters));
  }
  static void move(std::byte* to, const std::byte* from, std::int64_t bytes) {
    if (bytes > 0) copy_bytes(to, from, static_cast<std::size_t>(bytes));  // empty copies may have null pointers
  }
};

}  // namespace

std::unique_ptr<Device> make_device(std::string name, std::string_view kind) {
  require(kind == "cpu", "device ", name, ": unknown kind '", kind, "'; known kinds in this build: cpu");
  return std::make_unique<CpuDevice>(std::move(name));
}

}  // namespace karez::device
