// The reductions by which elements of several tensors are combined into one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "karez/tensor/namespace.h"

namespace karez::tensor {

enum class Reduce : std::uint8_t { sum, max, min };
std::string_view name_of(Reduce reduce);
std::optional<Reduce> reduce_from(std::string_view name);  // nullopt if no reduction has this name

}  // namespace karez::tensor
