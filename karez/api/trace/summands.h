// Storage of Partial arrays. Each device stores its summand as a row of an additional dimension; a program that takes
// such an array reduces the rows.
#pragma once

#include <optional>
#include <string_view>

#include "karez/api/trace/trace.h"

namespace karez {

// The type and layout of the summands: f32[5, 4; sum@data] on two devices is stored as f32[2@data, 5, 4].
struct Summands {
  TensorType type;
  Layout layout;
  sbp::Reduce reduce = sbp::Reduce::sum;
};
// Returns the summands of a Partial array; nullopt for any other layout.
std::optional<Summands> summands_of(const TensorType& type, const Mesh& mesh, const Layout& layout);

// Adds an input for an array on the builder's mesh, and returns the value of the array.
ValueId array_value(graph::Builder& b, std::string_view name, const TensorType& type, const Mesh& mesh,
                    const Layout& layout);

}  // namespace karez
