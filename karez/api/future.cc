// Implements Future: waits for the call and returns its results as arrays.
#include "karez/api/future.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "karez/api/namespace.h"
#include "karez/api/state/array_value.h"
#include "karez/api/state/call_outputs.h"

namespace karez {
namespace {
bool has_rank(const Mesh& mesh, int rank) {
  return std::any_of(mesh.devices.begin(), mesh.devices.end(), [&](DeviceName device) { return device.rank == rank; });
}
}  // namespace

void Future::wait() const { state_->launch.wait(); }
bool Future::done() const { return state_->launch.done(); }
std::size_t Future::size() const { return state_->results->specs.size(); }

Array Future::value(std::size_t i) const {
  require(i < size(), "result ", i, " does not exist; the call has ", size(), " results");
  std::shared_ptr<const ArraySpec> spec(state_->results, &state_->results->specs[i]);
  std::optional<Result> result;
  if (has_rank(spec->mesh, state_->world->ranks.rank()))
    result = state_->launch.result(*state_->results->result_indices[i]);
  return Array(std::make_shared<const ArrayValue>(
      ArrayValue{state_->world, std::move(result), std::move(spec), state_->launch.without_results()}));
}

}  // namespace karez
