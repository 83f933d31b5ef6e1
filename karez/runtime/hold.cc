// Values that the user gives: they lie as the results of launches do, and are there at once.
#include <algorithm>
#include <tuple>

#include "karez/device/device.h"
#include "karez/runtime/held.h"
#include "karez/runtime/loaded.h"
#include "karez/runtime/session.h"

namespace karez::runtime {

Result Session::hold(const TensorType& whole, std::vector<HeldPart> parts) {
  check_open();
  std::sort(parts.begin(), parts.end(), [](const HeldPart& a, const HeldPart& b) {
    return std::tie(a.place.rank, a.place.device) < std::tie(b.place.rank, b.place.device);
  });
  auto spread = std::make_shared<Spread>(Spread{"given", whole, {}});
  for (const HeldPart& part : parts)
    spread->parts.push_back({part.place, &device(part.place), part.begin, View(whole.dtype, part.shape)});
  auto held = std::make_shared<Held>(spread, options_.poison);
  for (std::size_t i = 0; i < parts.size(); ++i)
    spread->parts[i].device->write(held->memory[i].data(), parts[i].value.bytes(), parts[i].value.type().bytes());
  auto record = std::make_shared<LaunchRecord>();
  record->session = this;
  record->over = record->ended = true;
  return {std::move(record), std::move(held)};
}

}  // namespace karez::runtime
