// The plain kernel of row programs: each value of a row in f64, one statement after another.
#include <algorithm>

#include "karez/base/row_program.h"
#include "karez/kernels/cpu/index_bounds.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/cpu/row_schedule.h"

namespace karez::kernels {
namespace {

struct Matrix {
  std::int64_t rows = 1, columns = 1;
};
Matrix matrix_of(const CallSpec& call) {
  Matrix out;
  for (const auto* views : {&call.in, &call.out})
    for (const View& view : *views)
      out.rows = std::max(out.rows, view.shape[0]), out.columns = std::max(out.columns, view.shape[1]);
  return out;
}

bool supports(const CallSpec& call) {
  if (!call.attrs.has("program") || call.in.empty() || call.out.empty()) return false;
  const RowProgram program = parse_row_program(call.attrs.text("program"));
  if (static_cast<int>(call.in.size()) != program.inputs || call.out.size() != program.results.size()) return false;
  for (const auto* views : {&call.in, &call.out})
    for (const View& view : *views)
      if (view.rank() != 2) return false;
  const Matrix matrix = matrix_of(call);
  for (const auto* views : {&call.in, &call.out})
    for (const View& view : *views)
      if (!row_extent(view, matrix.rows, matrix.columns)) return false;
  return true;
}

// Combines a row of values. Sums of f64 are exact enough for all narrower types.
double reduced(RowStatementKind kind, const double* x, std::int64_t count) {
  double out = kind == RowStatementKind::sum ? 0 : x[0];
  for (std::int64_t c = 0; c < count; ++c)
    out = kind == RowStatementKind::sum   ? out + x[c]
          : kind == RowStatementKind::max ? ieee_maximum(out, x[c])
                                          : ieee_minimum(out, x[c]);
  return out;
}

// The number of an element in the memory of an operand that is repeated over the matrix.
std::int64_t position(const View& view, std::int64_t row, std::int64_t column) {
  return (view.shape[0] == 1 ? 0 : row * view.shape[1]) + (view.shape[1] == 1 ? 0 : column);
}

PreparedKernel prepare(const CallSpec& call) {
  struct Statement {
    RowStatementKind kind;
    ExprProgram expr;
  };
  const RowProgram program = parse_row_program(call.attrs.text("program"));
  std::vector<Statement> statements;
  for (const auto& [kind, expr] : program.statements) statements.push_back({kind, flatten(expr)});
  CallSpec one_hot = call;
  one_hot.op = "one_hot";
  const Matrix matrix = matrix_of(call);
  const IndexBounds bounds(one_hot, View(DType::i64, {matrix.rows}), matrix.columns);
  return [=, in = call.in, out = call.out](const KernelArgs& args) {
    const auto [rows, columns] = matrix;
    double* values = elements<double>(args.workspace);  // a row of each variable, then the registers of an expression
    double* registers = values + (program.inputs + static_cast<std::int64_t>(statements.size())) * columns;
    for (std::int64_t row = 0; row < rows; ++row) {
      double* to = values;
      for (std::size_t i = 0; i < in.size(); ++i, to += columns)
        with_type(in[i].dtype, [&]<class T>() {
          for (std::int64_t c = 0; c < columns; ++c)
            to[c] = static_cast<double>(elements<T>(args.in[i])[position(in[i], row, c)]);
        });
      for (const auto& [kind, expr] : statements) {
        const double* x = values + expr.result * columns;  // of a reduction or an index: its only variable
        if (kind == RowStatementKind::one_hot) {
          const std::int64_t marked = bounds.row(static_cast<std::int64_t>(x[0]), row);
          for (std::int64_t c = 0; c < columns; ++c) to[c] = c == marked;
        } else if (kind != RowStatementKind::each) {
          std::fill_n(to, columns, reduced(kind, x, columns));
        } else {
          for (std::int64_t c = 0; c < columns; ++c) {
            for (int v = 0; v < expr.variables; ++v) registers[v] = values[v * columns + c];
            for (std::size_t k = 0; k < expr.constants.size(); ++k)
              registers[static_cast<std::size_t>(expr.variables) + k] = expr.constants[k];
            const auto read = [&](int r) { return r < 0 ? 0.0 : registers[r]; };
            for (const ExprOp& op : expr.ops)
              registers[op.dst] = apply<double>(op.op, read(op.a), read(op.b), read(op.c));
            to[c] = registers[expr.result];
          }
        }
        to += columns;
      }
      for (std::size_t r = 0; r < out.size(); ++r) {
        const double* value = values + program.results[r] * columns;
        with_type(out[r].dtype, [&]<class T>() {
          T* result = elements<T>(args.out[r]) + row * out[r].shape[1];
          for (std::int64_t c = 0; c < out[r].shape[1]; ++c)
            if constexpr (std::is_same_v<T, bool>) result[c] = value[c] != 0;
            else if constexpr (tensor::is_half_type<T>) result[c] = T(static_cast<float>(value[c]));
            else result[c] = static_cast<T>(value[c]);
        });
      }
    }
  };
}

std::int64_t workspace(const CallSpec& call) {
  const RowProgram program = parse_row_program(call.attrs.text("program"));
  int registers = 0;
  for (const RowStatement& statement : program.statements)
    registers = std::max(registers, flatten(statement.expr).registers);
  const auto variables =
      static_cast<std::int64_t>(program.inputs) + static_cast<std::int64_t>(program.statements.size());
  return (variables * matrix_of(call).columns + registers) * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace

std::vector<KernelRow> plain_row_program_rows() {
  KernelRow row = plain_row("row_program", supports, prepare);
  row.workspace = workspace;
  return {row};
}

}  // namespace karez::kernels
