// Reads the numbers of a stage's state, which may come from a damaged file.
#pragma once

#include <string_view>

#include "karez/data/namespace.h"
#include "karez/data/stages/stream_state.h"

namespace karez::data {

// Throws if the state does not have exactly this many numbers and inputs.
inline void check_state(const StreamState& state, std::size_t numbers, std::size_t inputs, std::string_view stage) {
  require(ErrorKind::data, state.numbers.size() == numbers && state.inputs.size() == inputs, "the state of stage ",
          stage, " must have ", numbers, " numbers and ", inputs, " inputs, got ", state.numbers.size(), " and ",
          state.inputs.size(), "; it was saved by another pipeline");
}

}  // namespace karez::data
