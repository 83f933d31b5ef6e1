// Arrays that are Partial: devices hold their summands as rows of one more dimension, which a program that takes the
// array sums up.
#pragma once

#include <optional>
#include <string_view>

#include "karez/api/trace/trace.h"

namespace karez {

// How the rows lie together: f32[5, 4; sum@data] on two devices is f32[2@data, 5, 4].
struct Summands {
  TensorType type;
  Layout layout;
  sbp::Reduce reduce = sbp::Reduce::sum;
};
std::optional<Summands> summands_of(const TensorType& type, const Mesh& mesh,
                                    const Layout& layout);  // none: it is not Partial

// An array that lies on the builder's mesh.
ValueId array_value(graph::Builder& b, std::string_view name, const TensorType& type, const Mesh& mesh,
                    const Layout& layout);

}  // namespace karez
