// Attributes of ops that select rows by index, with which a kernel reports the logical position of an invalid index.
#pragma once

#include <utility>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// Adds these attributes of the local call; an attribute with its default value is omitted:
//   offset  the logical number of the first local row; 0 by default
//   limit   the number of rows on all devices; the number of local rows by default
//   begin   the logical position of the first local index; all zeros by default
// If `attrs` already has these attributes, because the node computes a micro-batch, `index` and `rows` are relative to
// them.
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
