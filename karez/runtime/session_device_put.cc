// Creates device values from user data. Each has the form of a result of a finished launch.
#include <algorithm>
#include <tuple>

#include "karez/device/device.h"
#include "karez/runtime/device_value.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/session.h"

namespace karez::runtime {

Result Session::device_put(const TensorType& type, std::vector<DeviceShard> parts) {
  check_open();
  std::sort(parts.begin(), parts.end(), [](const DeviceShard& a, const DeviceShard& b) {
    return std::tie(a.place.rank, a.place.device) < std::tie(b.place.rank, b.place.device);
  });
  auto layout = std::make_shared<ShardLayout>(ShardLayout{"given", type, {}});
  for (const DeviceShard& part : parts)
    layout->shards.push_back({part.place, &device(part.place), part.begin, View(type.dtype, part.shape)});
  auto value = std::make_shared<DeviceValue>(layout, options_.poison);
  for (std::size_t i = 0; i < parts.size(); ++i)
    layout->shards[i].device->write(value->memory[i].data(), parts[i].value.bytes(), parts[i].value.type().bytes());
  auto record = std::make_shared<LaunchRecord>();
  record->session = this;
  record->over = record->ended = true;
  return {std::move(record), std::move(value)};
}

}  // namespace karez::runtime
