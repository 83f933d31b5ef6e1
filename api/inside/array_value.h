// What an Array is made of.
#pragma once

#include <memory>

#include "api/array.h"
#include "api/inside/world_state.h"

namespace karez {

struct ArrayValue {
  std::weak_ptr<WorldState> world;
  runtime::Result result;
  Mesh mesh;
  Layout layout;

  static const ArrayValue& of(const Array& array);   // never made: an error
  std::shared_ptr<WorldState> living_world() const;  // gone: an error
};

}  // namespace karez
