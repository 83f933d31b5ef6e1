// Names of the variables that Karez itself adds to programs.
#pragma once

#include <string_view>

namespace karez {

inline constexpr std::string_view random_counter_name = "rng";
inline constexpr std::string_view loss_scale_prefix = "amp.";

// Returns true for the state of random numbers and for loss scales, which do not belong to any model.
inline bool is_builtin_name(std::string_view name) {
  return name == random_counter_name || name.starts_with(loss_scale_prefix);
}

}  // namespace karez
