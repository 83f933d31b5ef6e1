// RowMatrix: which calls compute on the rows of one matrix, and how their operands extend over it.
#pragma once

#include <cstdint>
#include <optional>

#include "karez/base/row_program.h"
#include "karez/passes/lowering/fuse/segment_calls.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// A call as a statement of a row program.
struct RowCall {
  RowStatementKind kind = RowStatementKind::each;
  Expr expr;                        // over the call's operands
  std::vector<RowExtent> in;        // of each operand
  RowExtent out = RowExtent::full;  // full or per_row
  bool is_rounded = false;          // the result has fewer bits than the computation, so no statement may read it
};

// The matrix whose rows a reduction reduces. Its elements are contiguous; the rows are the dimensions that are kept.
struct RowMatrix {
  std::int64_t rows = 0, columns = 0;
  DType dtype = DType::f32;  // of the computation

  std::int64_t count() const { return rows * columns; }
  View view(RowExtent extent, DType type) const;
};

// Returns the matrix of a reduction, or nullopt if the call is not the reduction of contiguous rows by one thread each.
std::optional<RowMatrix> matrix_of(const SegmentCalls& segment, const LocalCall& call);
// Returns nullopt if the call is not an operation on the matrix that a row program can compute with the same bits.
std::optional<RowCall> row_call(const SegmentCalls& segment, const LocalCall& call, const RowMatrix& matrix);

}  // namespace karez::passes
