// Recognises calls that compute on the rows of a matrix.
#include "karez/passes/lowering/fuse/row_calls.h"

#include <algorithm>

namespace karez::passes {
namespace {

std::optional<RowStatementKind> reduction_of(const LocalCall& call) {
  if (call.spec.op == "reduce_sum") return RowStatementKind::sum;
  if (call.spec.op == "reduce_max") return RowStatementKind::max;
  if (call.spec.op == "reduce_min") return RowStatementKind::min;
  return std::nullopt;
}

// Whether the strides of dimensions begin to end - 1 are those of contiguous elements, or all 0. Dimensions of size 1
// match both.
bool is_contiguous(const View& view, std::size_t begin, std::size_t end) {
  std::int64_t step = 1;
  for (std::size_t d = end; d-- > begin;) {
    if (view.shape[d] != 1 && view.strides[d] != step) return false;
    step *= view.shape[d];
  }
  return true;
}
bool is_repeated(const View& view, std::size_t begin, std::size_t end) {
  for (std::size_t d = begin; d < end; ++d)
    if (view.shape[d] != 1 && view.strides[d] != 0) return false;
  return true;
}

// The extent of an operand of a call whose result is the complete matrix.
std::optional<RowExtent> extent_in_matrix(const View& view, const RowMatrix& matrix) {
  if (view.contiguous()) return RowExtent::full;
  std::size_t split = 0;  // the first dimension of the columns
  std::int64_t rows = 1;
  while (split < view.shape.size() && rows < matrix.rows) rows *= view.shape[split++];
  if (rows != matrix.rows) return std::nullopt;
  const std::size_t end = view.shape.size();
  if (is_repeated(view, split, end) && is_contiguous(view, 0, split)) return RowExtent::per_row;
  if (is_repeated(view, 0, split) && is_contiguous(view, split, end)) return RowExtent::per_column;
  return is_repeated(view, 0, end) ? std::optional(RowExtent::scalar) : std::nullopt;
}

// The extent of an operand of a call with one result per row.
std::optional<RowExtent> extent_in_rows(const View& view) {
  if (view.contiguous()) return RowExtent::per_row;
  return is_repeated(view, 0, view.shape.size()) ? std::optional(RowExtent::scalar) : std::nullopt;
}

bool is_index(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }

// Whether a kernel that computes in this type reads and writes values of a dtype.
bool may_convert(DType computed, DType dtype) {
  return dtype == computed || dtype == DType::b8 || dtype == DType::f32 || (computed == DType::f32 && is_half(dtype));
}

std::optional<RowCall> reduction_call(const SegmentCalls& segment, const LocalCall& call, const RowMatrix& matrix) {
  const auto own = matrix_of(segment, call);
  if (!own || own->rows != matrix.rows || own->columns != matrix.columns || own->dtype != matrix.dtype)
    return std::nullopt;
  RowCall out;
  out.kind = *reduction_of(call), out.expr = base::expr_variable(0);
  out.in = {RowExtent::full}, out.out = RowExtent::per_row;
  return out;
}

std::optional<RowCall> one_hot_call(const LocalCall& call, const RowMatrix& matrix) {
  const View &index = call.spec.in[0], &result = call.spec.out[0];
  const bool fits = index.rank() == 1 && index.contiguous() && is_index(index.dtype) && index.count() == matrix.rows &&
                    result.contiguous() && result.count() == matrix.count() &&
                    (result.dtype == DType::b8 || result.dtype == matrix.dtype);
  if (!fits) return std::nullopt;
  RowCall out;
  out.kind = RowStatementKind::one_hot, out.expr = base::expr_variable(0);
  out.in = {RowExtent::per_row};
  return out;
}

// Whether a call computes in the type of the matrix, so that its statement has the same bits.
bool computes_in(const LocalCall& call, const Expr& expr, DType computed) {
  bool reads_computed = call.spec.out[0].dtype == computed;
  for (const View& operand : call.spec.in) {
    if (!may_convert(computed, operand.dtype)) return false;
    reads_computed |= operand.dtype == computed;
  }
  if (!may_convert(computed, call.spec.out[0].dtype)) return false;
  if (call.spec.out[0].dtype == DType::b8 && !base::is_boolean(expr->kind)) return false;
  return computed == DType::f32 || reads_computed;
}

std::optional<RowCall> pointwise_call(const SegmentCalls& segment, const LocalCall& call, const RowMatrix& matrix) {
  const bool is_cast = call.spec.op == "cast";
  if (!is_cast && (call.spec.op != "pointwise" || !call.spec.attrs.has("expr"))) return std::nullopt;
  if (call.spec.out.size() != 1 || call.spec.in.empty()) return std::nullopt;
  RowCall out;
  out.expr = is_cast ? base::expr_variable(0) : base::parse_expr(call.spec.attrs.text("expr"));
  const View& result = call.spec.out[0];
  if (!result.contiguous()) return std::nullopt;
  if (result.count() != matrix.count() && result.count() != matrix.rows) return std::nullopt;
  out.out = result.count() == matrix.count() ? RowExtent::full : RowExtent::per_row;
  for (const View& operand : call.spec.in) {
    if (operand.shape != result.shape) return std::nullopt;
    const auto extent = out.out == RowExtent::full ? extent_in_matrix(operand, matrix) : extent_in_rows(operand);
    if (!extent) return std::nullopt;
    out.in.push_back(*extent);
  }
  if (!computes_in(call, out.expr, matrix.dtype)) return std::nullopt;
  out.is_rounded = result.dtype != matrix.dtype && result.dtype != DType::b8;
  if (!is_cast) {  // a slow kernel may compute other bits
    const auto choice = segment.catalog().find(call.spec);
    if (!choice || choice->rate < 1) return std::nullopt;
  }
  return out;
}

}  // namespace

View RowMatrix::view(RowExtent extent, DType type) const {
  return View(type, {extent == RowExtent::full || extent == RowExtent::per_row ? rows : 1,
                     extent == RowExtent::full || extent == RowExtent::per_column ? columns : 1});
}

std::optional<RowMatrix> matrix_of(const SegmentCalls& segment, const LocalCall& call) {
  if (SegmentCalls::is_removed(call) || !reduction_of(call)) return std::nullopt;
  const View &x = call.spec.in[0], &y = call.spec.out[0];
  if ((x.dtype != DType::f32 && x.dtype != DType::f64) || y.dtype != x.dtype || !x.contiguous() || !y.contiguous())
    return std::nullopt;
  std::vector<bool> is_reduced(x.shape.size());
  for (std::int64_t axis : call.spec.attrs.ints("axes")) is_reduced[static_cast<std::size_t>(axis)] = true;
  RowMatrix out{1, 1, x.dtype};
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    if (x.shape[d] == 1) continue;
    if (!is_reduced[d] && out.columns > 1) return std::nullopt;  // a kept dimension inside of the columns
    (is_reduced[d] ? out.columns : out.rows) *= x.shape[d];
  }
  if (out.count() != x.count() || out.columns < 2 || out.rows < 1) return std::nullopt;
  // A team would divide the terms of few long rows.
  constexpr std::int64_t divided = 1 << 16;
  if (out.rows < segment.team() && out.count() >= divided) return std::nullopt;
  const auto choice = segment.catalog().find(call.spec);
  return choice && choice->rate >= 1 ? std::optional(out) : std::nullopt;
}

std::optional<RowCall> row_call(const SegmentCalls& segment, const LocalCall& call, const RowMatrix& matrix) {
  if (SegmentCalls::is_removed(call) || !call.node.valid()) return std::nullopt;
  if (reduction_of(call)) return reduction_call(segment, call, matrix);
  if (call.spec.op == "one_hot") return one_hot_call(call, matrix);
  return pointwise_call(segment, call, matrix);
}

}  // namespace karez::passes
