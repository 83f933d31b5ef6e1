// Attributes of ops that select rows by index, with which a kernel reports the logical position of an invalid index.
#pragma once

#include <utility>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// Adds attributes of the local call: "offset", the logical number of the first local row, "limit", the number of rows
// on all devices, and "begin", the logical position of the first local index. Defaults (0, all rows, the first element)
// are omitted. If `attrs` already has these attributes (of a micro-batch), boxes are relative to them.
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
