// What a call gives: waiting for it, and its values as arrays.
#include <algorithm>
#include <memory>
#include <optional>

#include "karez/api/inside/array_value.h"
#include "karez/api/inside/compiled_function.h"

namespace karez {
namespace {
bool has_rank(const Mesh& mesh, int rank) {
  return std::any_of(mesh.devices.begin(), mesh.devices.end(), [&](DeviceName device) { return device.rank == rank; });
}
}  // namespace

void Future::wait() const { running_->launch.wait(); }
bool Future::done() const { return running_->launch.done(); }
std::size_t Future::size() const { return running_->results->kept.size(); }

Array Future::value(std::size_t i) const {
  require(i < size(), "the call gives ", size(), " values; there is no number ", i);
  std::shared_ptr<const Kept> kept(running_->results, &running_->results->kept[i]);
  std::optional<Result> part;
  if (has_rank(kept->mesh, running_->world->ranks.rank()))
    part = running_->launch.result(*running_->results->fetched[i]);
  return Array(std::make_shared<const ArrayValue>(
      ArrayValue{running_->world, std::move(part), std::move(kept), running_->launch.without_results()}));
}

}  // namespace karez
