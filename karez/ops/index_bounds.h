// What a kernel must know to name a wrong index by its place in the logical tensor, for ops that read rows by index.
#pragma once

#include <utility>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// Of the local call: "offset", the logical number of the first row here, "limit", how many rows there are on all
// devices, and "begin", where the part of the index here begins. What says nothing (0, all rows, the first element) is
// left out. Attributes that have a place already (of a micro-batch) are those of the whole that the boxes are parts of.
inline Attrs with_index_bounds(Attrs attrs, const Box& index, const Range& rows, std::int64_t all_rows) {
  if (rows.begin != 0) attrs.set("offset", attrs.integer("offset", 0) + rows.begin);
  if (rows.size() != all_rows && !attrs.has("limit")) attrs.set("limit", all_rows);
  Ints begin;
  for (const Range& range : index)
    begin.push_back(range.begin + (attrs.has("begin") ? attrs.ints("begin")[begin.size()] : 0));
  if (begin != Ints(begin.size(), 0)) attrs.set("begin", std::move(begin));
  return attrs;
}

}  // namespace karez::ops
