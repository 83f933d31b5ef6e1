// What an Array is made of.
#pragma once

#include <memory>
#include <optional>

#include "karez/api/array.h"
#include "karez/api/state/world_state.h"

namespace karez {

// What a result is and where it lies.
struct ArraySpec {
  TensorType type;
  Mesh mesh;
  Layout layout;
  bool operator==(const ArraySpec&) const = default;
};

struct ArrayValue {
  std::weak_ptr<WorldState> world;
  std::optional<runtime::Result> result;  // what this rank's devices hold; none: they hold nothing of it
  std::shared_ptr<const ArraySpec> spec;
  std::optional<runtime::Launch> launch = {};  // that makes it; none: the user gave it

  static const ArrayValue& of(const Array& array);   // never made: an error
  std::shared_ptr<WorldState> living_world() const;  // gone: an error
};

}  // namespace karez
