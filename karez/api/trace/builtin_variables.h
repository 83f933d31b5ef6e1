// Variables that Karez adds to programs: the state of random numbers, and loss scales.
#pragma once

#include <cstddef>
#include <cstdint>

#include "karez/api/parameter.h"

namespace karez {

// Makes the state of random numbers, i64[2] = (seed, step): a variable of every world with a function that draws random
// numbers.
Parameter random_counter();

// The following two functions are for programs that create variables. first_random_state returns i64[2] = (seed, 0).
ValueId first_random_state(Builder& b, std::uint64_t seed);
ValueId first_value(Builder& b, const Parameter& parameter, ValueId random_state);

// The variables of a dynamic loss scale: the factor f32[] of losses, and the number i64[] of steps with finite
// gradients since the factor last changed. There is one pair for each mesh with a function that scales losses, numbered
// from the second mesh on: "amp.scale.2".
struct LossScaleState {
  Parameter scale, good;
  explicit LossScaleState(std::size_t number);
};

}  // namespace karez
