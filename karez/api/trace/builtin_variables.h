// Variables that Karez adds to programs: the state of random numbers, and loss scales.
#pragma once

#include <cstddef>
#include <cstdint>

#include "karez/api/parameter.h"

namespace karez {

// Makes the state of random numbers, i64[2] = (seed, step). Every world in which a function draws random numbers has
// this variable.
Parameter random_counter();

// The following two functions are for programs that create variables. first_random_state returns i64[2] = (seed, 0);
// first_value runs the initialiser of the parameter.
ValueId first_random_state(Builder& b, std::uint64_t seed);
ValueId first_value(Builder& b, const Parameter& parameter, ValueId random_state);

// The variables of a dynamic loss scale: the factor by which losses are multiplied (f32[]), and the number of steps
// with finite gradients since the factor last changed (i64[]). Each mesh on which a function scales losses has one such
// pair; names have a number from the second mesh on: "amp.scale.2".
struct LossScaleState {
  Parameter scale, good;
  explicit LossScaleState(std::size_t number);
};

}  // namespace karez
