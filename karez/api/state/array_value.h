// ArrayValue: the contents of an Array.
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

// The parts of an array on this rank's devices, with its world and the launch that makes it.
struct ArrayValue {
  std::weak_ptr<WorldState> world;
  std::optional<runtime::Result> result;  // the parts on this rank's devices; nullopt if they hold no part
  std::shared_ptr<const ArraySpec> spec;
  std::optional<runtime::Launch> launch = {};  // the launch that makes the array; nullopt if the user passed its parts

  static const ArrayValue& of(const Array& array);   // throws for an uninitialised array
  std::shared_ptr<WorldState> living_world() const;  // the world; throws if it no longer exists
};

}  // namespace karez
