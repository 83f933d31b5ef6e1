// How elements become a batch: the number of rows, and what happens to the last ones of an epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "karez/data/dataset.h"
#include "karez/data/namespace.h"
#include "karez/data/stages/row_stack.h"

namespace karez::data {

inline const char* name_of(LastBatch last) {
  switch (last) {
    case LastBatch::keep: return "keep";
    case LastBatch::drop: return "drop";
    case LastBatch::pad: return "pad";
  }
  return "?";
}

struct BatchRule {
  std::int64_t rows = 1;
  LastBatch last = LastBatch::keep;
  bool padded = false;
  std::vector<Shape> shapes = {};
  std::string stage;
  std::shared_ptr<ArrayPool> pool = std::make_shared<ArrayPool>();

  // The batch of these elements; if there are fewer than `rows`, it is the last one and must not be dropped.
  Element make(std::span<const Element> elements) const {
    const bool pad = last == LastBatch::pad;
    return stack(elements, {pad ? rows : static_cast<std::int64_t>(elements.size()), pad, padded, shapes}, *pool,
                 stage);
  }
};

}  // namespace karez::data
