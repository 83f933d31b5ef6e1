// What an Array is made of.
#pragma once

#include <memory>

#include "api/array.h"
#include "api/inside/world_state.h"

namespace karez {

// Where a result lies.
struct Kept {
  Mesh mesh;
  Layout layout;
  bool operator==(const Kept&) const = default;
};

struct ArrayValue {
  std::weak_ptr<WorldState> world;
  runtime::Result result;
  std::shared_ptr<const Kept> kept;

  static const ArrayValue& of(const Array& array);   // never made: an error
  std::shared_ptr<WorldState> living_world() const;  // gone: an error
};

}  // namespace karez
