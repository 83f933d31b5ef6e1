// Finds the extents of the values of a row program, and the phases of its statements.
#include "karez/kernels/cpu/row_values.h"

#include <algorithm>
#include <limits>

#include "karez/kernels/cpu/index_bounds.h"

namespace karez::kernels {
namespace {

// Whether a kernel that computes in this type reads and writes values of a dtype.
bool may_convert(DType computed, DType dtype) {
  return dtype == DType::b8 || dtype == DType::f32 || (computed == DType::f32 ? is_half(dtype) : dtype == computed);
}

}  // namespace

std::optional<RowExtent> row_extent(const View& view, std::int64_t rows, std::int64_t columns) {
  if (view.rank() != 2 || !view.contiguous()) return std::nullopt;
  const std::int64_t r = view.shape[0], c = view.shape[1];
  if (r == rows && c == columns) return RowExtent::full;
  if (r == 1 && c == 1) return RowExtent::scalar;
  if (r == rows && c == 1) return RowExtent::per_row;
  if (r == 1 && c == columns) return RowExtent::per_column;
  return std::nullopt;
}

std::optional<RowValues> RowValues::of(const CallSpec& call, DType computed) {
  if (!call.attrs.has("program")) return std::nullopt;
  RowValues out;
  out.program_ = parse_row_program(call.attrs.text("program"));
  if (static_cast<int>(call.in.size()) != out.inputs() || call.out.size() != out.program_.results.size() ||
      call.in.empty() || call.out.empty() || out.variables() > max_row_variables)
    return std::nullopt;
  for (const auto* views : {&call.in, &call.out})
    for (const View& view : *views) {
      if (view.rank() != 2) return std::nullopt;
      out.rows_ = std::max(out.rows_, view.shape[0]), out.columns_ = std::max(out.columns_, view.shape[1]);
    }
  if (out.rows_ < 1 || out.columns_ < 2) return std::nullopt;
  for (const auto* views : {&call.in, &call.out})
    for (const View& view : *views)
      if (!row_extent(view, out.rows_, out.columns_)) return std::nullopt;
  if (!out.find_extents(call, computed)) return std::nullopt;
  out.find_phases();
  return out;
}

std::vector<int> RowValues::reads(int v) const {
  std::vector<int> out;
  variables_of(statement(v).expr, out);
  return out;
}
bool RowValues::is_result(int v) const {
  return std::find(program_.results.begin(), program_.results.end(), v) != program_.results.end();
}

bool RowValues::find_extents(const CallSpec& call, DType computed) {
  extents_.resize(static_cast<std::size_t>(variables()));
  for (int v = 0; v < variables(); ++v) {
    if (is_input(v)) {
      extents_[static_cast<std::size_t>(v)] = *row_extent(call.in[static_cast<std::size_t>(v)], rows_, columns_);
      continue;
    }
    const RowStatementKind kind = statement(v).kind;
    const std::vector<int> read = reads(v);
    if (kind == RowStatementKind::each) {
      const bool any_full = std::any_of(read.begin(), read.end(), [&](int r) { return is_full(r); });
      extents_[static_cast<std::size_t>(v)] = any_full ? RowExtent::full : RowExtent::per_row;
      for (const ExprOp& op : flatten(statement(v).expr).ops)
        if (is_bitwise(op.op)) return false;
    } else if (kind == RowStatementKind::one_hot) {
      if (!is_input(read[0]) || extent(read[0]) == RowExtent::full || extent(read[0]) == RowExtent::per_column ||
          !is_index(call.in[static_cast<std::size_t>(read[0])]))
        return false;
      extents_[static_cast<std::size_t>(v)] = RowExtent::full;
    } else {
      // A narrower operand would have to be converted; statements are not.
      if (extent(read[0]) != RowExtent::full ||
          (is_input(read[0]) && call.in[static_cast<std::size_t>(read[0])].dtype != computed))
        return false;
      extents_[static_cast<std::size_t>(v)] = RowExtent::per_row;
    }
    for (int r : read)
      if (kind != RowStatementKind::one_hot && is_input(r) &&
          !may_convert(computed, call.in[static_cast<std::size_t>(r)].dtype))
        return false;
  }
  for (std::size_t r = 0; r < program_.results.size(); ++r) {
    const RowExtent result = *row_extent(call.out[r], rows_, columns_);
    const bool is_row = result == RowExtent::per_row || (rows_ == 1 && result == RowExtent::scalar);
    if (extent(program_.results[r]) == RowExtent::full ? result != RowExtent::full : !is_row) return false;
    if (!may_convert(computed, call.out[r].dtype)) return false;
  }
  return true;
}

// Reductions run as early as possible, other full values as late as possible, so that few values are alive between
// phases.
void RowValues::find_phases() {
  available_.assign(static_cast<std::size_t>(variables()), 0);
  phase_.assign(static_cast<std::size_t>(variables()), 0);
  for (int v = program_.inputs; v < variables(); ++v) {
    int& available = available_[static_cast<std::size_t>(v)];
    for (int r : reads(v)) available = std::max(available, available_[static_cast<std::size_t>(r)]);
    phase_[static_cast<std::size_t>(v)] = available;
    if (runs_on_blocks(v)) last_phase_ = std::max(last_phase_, available);
    if (runs_on_blocks(v) && extent(v) == RowExtent::per_row) ++available;  // a reduction
  }
  std::vector<int> first_use(static_cast<std::size_t>(variables()), std::numeric_limits<int>::max());
  for (int result : program_.results) first_use[static_cast<std::size_t>(result)] = last_phase_;
  for (int v = variables() - 1; v >= program_.inputs; --v) {
    if (!runs_on_blocks(v)) continue;
    int& phase = phase_[static_cast<std::size_t>(v)];
    if (extent(v) == RowExtent::full)
      phase = std::max(phase, std::min(first_use[static_cast<std::size_t>(v)], last_phase_));
    for (int r : reads(v)) {
      int& first = first_use[static_cast<std::size_t>(r)];
      first = std::min(first, phase);
    }
  }
  last_use_.assign(static_cast<std::size_t>(variables()), -1);
  for (int v = program_.inputs; v < variables(); ++v)
    if (runs_on_blocks(v))
      for (int r : reads(v)) {
        int& last = last_use_[static_cast<std::size_t>(r)];
        last = std::max(last, phase(v));
      }
  for (int result : program_.results)
    if (extent(result) == RowExtent::full) last_use_[static_cast<std::size_t>(result)] = last_phase_;
}

}  // namespace karez::kernels
