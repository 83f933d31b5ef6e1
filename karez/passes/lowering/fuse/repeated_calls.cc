// Estimates what it costs to compute a pointwise call again.
#include "karez/passes/lowering/fuse/repeated_calls.h"

#include <algorithm>

namespace karez::passes {
namespace {

// The number of cheap operations up to which a value with several readers is computed again in each of them.
constexpr std::size_t max_repeated_ops = 2;

bool is_cheap(ExprKind kind) {
  switch (kind) {
    case ExprKind::neg:
    case ExprKind::not_:
    case ExprKind::abs:
    case ExprKind::add:
    case ExprKind::sub:
    case ExprKind::mul:
    case ExprKind::lt:
    case ExprKind::le:
    case ExprKind::gt:
    case ExprKind::ge:
    case ExprKind::eq:
    case ExprKind::ne:
    case ExprKind::and_:
    case ExprKind::or_:
    case ExprKind::max:
    case ExprKind::min:
    case ExprKind::select: return true;
    default: return false;
  }
}

}  // namespace

std::int64_t stored_bytes(const View& view) {
  std::int64_t bytes = size_of(view.dtype);
  for (std::size_t d = 0; d < view.shape.size(); ++d)
    if (view.strides[d] != 0) bytes *= view.shape[d];
  return bytes;
}

bool may_repeat(const LocalCall& call, const Expr& expr) {
  const base::ExprProgram program = flatten(expr);
  if (program.ops.size() > max_repeated_ops) return false;
  std::int64_t read = 0;
  for (const View& operand : call.spec.in) read += stored_bytes(operand);
  return read <= stored_bytes(call.spec.out[0]) + stored_bytes(call.spec.out[0]) / 8 &&
         std::all_of(program.ops.begin(), program.ops.end(), [](const base::ExprOp& op) { return is_cheap(op.op); });
}

}  // namespace karez::passes
