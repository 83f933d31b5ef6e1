// Ops between micro-batches and the full batch: sums, concatenations and slices over the acts of a launch. Only the
// pass `microbatch` inserts them.
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

// Returns a letter for every dimension except the axis of the micro-batches: a slice of a local part is not a
// contiguous range of the logical tensor.
Signature letters_except_axis(const NodeView& node) {
  Signature s;
  s.in = {letters(node.in_type(0).shape)};
  s.in[0][static_cast<std::size_t>(node.attrs().integer("axis"))] = never_split;
  s.out = s.in;
  s.moves = true;
  return s;
}

std::int64_t parts_of(std::string_view op, const Attrs& attrs) {
  std::int64_t parts = attrs.integer("parts");
  require(ErrorKind::shape, parts >= 1, op, ": parts must be at least 1, got ", parts);
  return parts;
}

}  // namespace

std::vector<OpDef> microbatch_ops() {
  OpDef accumulate{
      .name = "accumulate",
      .doc = "Sums x over all acts of a launch, in the order of the acts. The result is complete after the last act.",
      .inputs = 1};
  accumulate.infer = [](std::span<const TensorType> in, const Attrs&) {
    require_number("accumulate", in[0]);
    return std::vector{in[0]};
  };
  accumulate.index = [](const NodeView& node) {
    Signature s = same_shape_signature(node);
    s.linear = {{0}};
    return s;
  };
  accumulate.no_grad = "it is inserted after differentiation";
  accumulate.cost = [](std::span<const TensorType> in, std::span<const TensorType>, const Attrs&) {
    return Cost{WorkClass::memory, 0, 3 * bytes_of(in, {})};
  };
  accumulate.role = Role::accumulate;

  OpDef join{
      .name = "micro_join",
      .doc = "Concatenates x of all {parts} acts of a launch along {axis}. The result is complete after the last act.",
      .inputs = 1};
  join.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    TensorType out = in[0];
    auto& size = out.shape[static_cast<std::size_t>(axis_of("micro_join", attrs, in[0]))];
    size = checked_mul(size, parts_of("micro_join", attrs));
    return std::vector{out};
  };
  join.index = letters_except_axis;
  join.no_grad = accumulate.no_grad;
  join.role = Role::micro_join;

  OpDef part{
      .name = "micro_slice",
      .doc = "Returns, in each act, the next of {parts} equal parts of x along {axis}; x is filled once per launch.",
      .inputs = 1};
  part.infer = [](std::span<const TensorType> in, const Attrs& attrs) {
    TensorType out = in[0];
    auto& size = out.shape[static_cast<std::size_t>(axis_of("micro_slice", attrs, in[0]))];
    const std::int64_t parts = parts_of("micro_slice", attrs);
    require(ErrorKind::shape, size % parts == 0, "micro_slice: ", parts, " parts do not divide size ", size, " of ",
            in[0]);
    size /= parts;
    return std::vector{out};
  };
  part.index = letters_except_axis;
  part.no_grad = accumulate.no_grad;
  part.cost = [](std::span<const TensorType>, std::span<const TensorType> out, const Attrs&) {
    return Cost{WorkClass::memory, 0, 2 * bytes_of({}, out)};
  };
  part.role = Role::micro_slice;
  return {accumulate, join, part};
}

}  // namespace karez::ops
