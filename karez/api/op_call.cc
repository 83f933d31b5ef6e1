// Implements call_op: converts the operands and adds a node of the op.
#include "karez/api/op_call.h"

#include "karez/api/namespace.h"
#include "karez/api/trace/axes.h"
#include "karez/api/trace/promotion.h"
#include "karez/api/trace/shared_call.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/compose.h"
#include "karez/ops/pointwise.h"

namespace karez {
namespace {

std::vector<ValueId> pointwise_operands(Trace& t, const ops::Pointwise& row, std::span<const Term* const> operands) {
  DType dtype = operands.size() == 1 ? t.dtype_of(*operands[0]) : promoted(t, operands);
  if (row.dtypes == ops::OperandDTypes::floats && !is_float(dtype)) dtype = DType::f32;
  if (operands.size() > 1 && is_float(dtype) && are_numbers(operands)) dtype = DType::f64;
  std::vector<ValueId> ids;
  for (const Term* operand : operands) ids.push_back(as(t, *operand, dtype));
  if (ids.size() == 1) return ids;
  Shape shape;
  for (ValueId id : ids) shape = build::broadcast_shape(shape, t.graph.type(id).shape);
  for (ValueId& id : ids) id = build::broadcast_to(t.builder, id, shape);
  return ids;
}

}  // namespace

Tensor call_op(std::string_view op, std::span<const Term* const> operands, Attrs attrs) {
  require(!operands.empty(), op, ": at least one operand is required");
  return at_line_shared(operands[0]->where, CallKey("op", op, attrs), operands, [&](Trace& t) {
    if (const ops::Pointwise* row = ops::pointwise_row(op))
      return t.tensor(t.builder.add(op, pointwise_operands(t, *row, operands), std::move(attrs))[0]);
    std::vector<ValueId> ids;
    for (const Term* operand : operands) ids.push_back(t.value(*operand, t.dtype_of(*operand)));
    if (attrs.has("axis")) attrs.set("axis", axes_or_all({attrs.integer("axis")}, t.graph.type(ids[0]).rank())[0]);
    return t.tensor(t.builder.add(op, ids, std::move(attrs))[0]);
  });
}

Tensor call_op(std::string_view op, std::initializer_list<const Term*> operands, Attrs attrs) {
  return call_op(op, std::span(operands.begin(), operands.size()), std::move(attrs));
}

const std::vector<PointwiseFunction>& pointwise_functions() {
  static const std::vector<PointwiseFunction> functions = [] {
    std::vector<PointwiseFunction> out;
    for (const ops::Pointwise& row : ops::pointwise_rows())
      if (row.has_function) out.push_back({row.name, row.doc, row.operands});
    return out;
  }();
  return functions;
}

}  // namespace karez
