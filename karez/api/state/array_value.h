// The contents of an Array.
#pragma once

#include <memory>
#include <optional>

#include "karez/api/array.h"
#include "karez/api/state/world_state.h"

namespace karez {

// Type, mesh and layout of an array.
struct ArraySpec {
  TensorType type;
  Mesh mesh;
  Layout layout;
  bool operator==(const ArraySpec&) const = default;
};

struct ArrayValue {
  std::weak_ptr<WorldState> world;
  std::optional<runtime::Result> result;  // the parts on this rank's devices; none if they hold no part
  std::shared_ptr<const ArraySpec> spec;
  std::optional<runtime::Launch> launch = {};  // the launch that makes it; none if the user gave it

  static const ArrayValue& of(const Array& array);   // an error if it is empty
  std::shared_ptr<WorldState> living_world() const;  // an error if it no longer exists
};

}  // namespace karez
