// Steps of optimisers on one parameter, as in PyTorch: sgd and adam, and the conditional sgd_if and adam_if.
#include <cmath>

#include "karez/ops/build.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

// Throws unless w, its states and its gradient have the same float type and lr is a scalar of the same dtype.
void check(std::string_view op, std::span<const TensorType> tensors, const TensorType& lr) {
  require_float(op, tensors[0]);
  for (const auto& t : tensors.subspan(1)) require_same_type(op, tensors[0], t);
  require(ErrorKind::type, (lr == TensorType{tensors[0].dtype, {}}), op, ": the learning rate must be a scalar ",
          name_of(tensors[0].dtype), "[], got ", lr);
}

void check_range(std::string_view op, const Attrs& attrs, std::string_view name, double default_value,
                 double upper_bound) {
  double value = attrs.real(name, default_value);
  require(value >= 0 && value < upper_bound, op, ": ", name, " must be at least 0 and less than ", upper_bound,
          ", got ", value);
}

OpDef sgd() {
  OpDef op{
      .name = "sgd",
      .doc =
          "Applies a step of SGD: (w, m, g, lr) -> (w', m') with g += {weight_decay} w; m' = {momentum} m + g; w' = w "
          "- lr m', or w' = w - lr (g + momentum m') with {nesterov}.",
      .inputs = 4};
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    check("sgd", in.first(3), in[3]);
    check_range("sgd", attrs, "momentum", 0, INFINITY);
    check_range("sgd", attrs, "weight_decay", 0, INFINITY);
    attrs.flag("nesterov", false);
    return std::vector{in[0], in[0]};
  };
  op.index = same_shape_signature;
  op.no_grad = "an update";
  op.in_place = {{0, 0}, {1, 1}};
  op.role = Role::update;
  op.work = WorkClass::update;
  op.shared_operands = 1;  // lr
  return op;
}

OpDef adam() {
  OpDef op{.name = "adam",
           .doc =
               "Applies a step of Adam: (w, m, v, g, lr, step) -> (w', m', v') with {beta1}, {beta2}, {eps} and "
               "{weight_decay}. step is i64[] and 1 at the first update. With {decoupled}, w is multiplied by 1 - lr "
               "{weight_decay}, and g is unchanged (AdamW).",
           .inputs = 6};
  op.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    check("adam", in.first(4), in[4]);
    require(ErrorKind::type, (in[5] == TensorType{DType::i64, {}}), "adam: the step must be a scalar i64[], got ",
            in[5]);
    attrs.real("beta1");
    attrs.real("beta2");
    check_range("adam", attrs, "beta1", 0.9, 1);
    check_range("adam", attrs, "beta2", 0.999, 1);
    require(attrs.real("eps") >= 0, "adam: eps must be at least 0, got ", attrs.real("eps"));
    check_range("adam", attrs, "weight_decay", 0, INFINITY);
    attrs.flag("decoupled", false);
    return std::vector{in[0], in[0], in[0]};
  };
  op.index = same_shape_signature;
  op.no_grad = "an update";
  op.in_place = {{0, 0}, {1, 1}, {2, 2}};
  op.role = Role::update;
  op.work = WorkClass::update;
  op.shared_operands = 2;  // lr, step
  return op;
}

// Returns the op with one more operand, `apply`, a scalar bool. If it is false, the old values are kept bit for bit.
OpDef make_conditional(OpDef op) {
  const std::string step = op.name;
  op.name += "_if";
  op.doc += " The last operand, apply, is a bool[]; if it is false, the results are the old values.";
  op.infer = [step, infer = op.infer](std::span<const TensorType> in, const Attrs& attrs) {
    require(ErrorKind::type, (in.back() == TensorType{DType::b8, {}}), step, "_if: apply must be a scalar bool[], got ",
            in.back());
    return infer(in.first(in.size() - 1), attrs);
  };
  ++op.inputs;
  ++*op.shared_operands;
  return op;
}

}  // namespace

std::vector<OpDef> update_ops() { return {sgd(), adam(), make_conditional(sgd()), make_conditional(adam())}; }

}  // namespace karez::ops
