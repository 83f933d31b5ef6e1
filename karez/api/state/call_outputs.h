// The outputs of a compiled function, and the state of a Future.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "karez/api/future.h"
#include "karez/api/state/array_value.h"
#include "karez/api/state/world_state.h"
#include "karez/runtime/session.h"

namespace karez {

// The outputs of a function, and the index of each in the results of a launch.
struct Outputs {
  std::vector<ArraySpec> specs;
  // An index is nullopt if no device of this rank holds a part of the output. Set at the first launch.
  std::vector<std::optional<std::size_t>> result_indices;
};

struct Future::State {
  std::shared_ptr<WorldState> world;  // keeps the session alive, because the launch needs it
  runtime::Launch launch;
  std::shared_ptr<const Outputs> results;
};

}  // namespace karez
