// Ops whose results come from outside or are computed from indices: input, variable, iota, random_uniform.
#include "karez/ops/build.h"
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {
namespace {

std::vector<TensorType> infer_named(std::string_view op, const Attrs& attrs) {
  require(!attrs.text("name").empty(), op, ": name must not be empty");
  return one_type(type_attr(op, attrs));
}

// Results have a letter for every dimension, because every device can produce its part alone.
Signature every_letter(const NodeView& node) { return same_shape_signature(node); }

OpDef input() {
  return {.name = "input",
          .doc =
              "Returns the input {name} of each step, with {dtype} and {shape}. Only the first dimension, the batch, "
              "may be split. With {array}, the input is a value that is already on the mesh, with any layout. With "
              "{ahead}, the input is read one launch ahead, because reading it is slow.",
          .infer = [](std::span<const TensorType>, const Attrs& attrs) { return infer_named("input", attrs); },
          .index =
              [](const NodeView& node) {
                if (node.attrs().flag("array", false)) return every_letter(node);
                const Shape& shape = node.out_type(0).shape;
                Signature s;
                s.out.emplace_back(shape.size(), never_split);
                if (!shape.empty()) s.out[0].front() = std::string(1, 'n');
                return s;
              },
          .no_grad = "it has no operands",
          .cost = no_cost,
          .role = Role::source};
}

OpDef variable() {
  return {.name = "variable",
          .doc = "Returns the variable {name}, with {dtype} and {shape}, as stored before the launch.",
          .infer = [](std::span<const TensorType>, const Attrs& attrs) { return infer_named("variable", attrs); },
          .index = every_letter,
          .no_grad = "it has no operands",
          .cost = no_cost,
          .role = Role::state};
}

OpDef iota() {
  return {
      .name = "iota",
      .doc =
          "Returns a tensor of {dtype} and {shape} in which each element is its own logical index along {axis}. Local "
          "attribute: {start} is the index of the first local element.",
      .infer =
          [](std::span<const TensorType>, const Attrs& attrs) {
            TensorType type = type_attr("iota", attrs);
            require_number("iota", type);
            axis_of("iota", attrs, type);
            return one_type(std::move(type));
          },
      .index = every_letter,
      .localise =
          [](const LocalView& view) {
            Attrs attrs = with_local_shape(view);
            attrs.set("start",
                      attrs.integer("start", 0) + view.out[0][static_cast<std::size_t>(attrs.integer("axis"))].begin);
            return attrs;
          },
      .no_grad = "it has no operands",
      .role = Role::constant};
}

OpDef random_uniform() {
  return {
      .name = "random_uniform",
      .doc =
          "Returns random numbers, uniform in [0, 1), of {dtype} (f32 or f64) and {shape}. They depend only on the "
          "state i64[2] = (seed, step), {site} and the logical index of the element. Local attributes: {begin} is the "
          "logical position of the first local element, {logical} the logical shape.",
      .inputs = 1,
      .infer =
          [](std::span<const TensorType> in, const Attrs& attrs) {
            require(ErrorKind::type, in[0] == TensorType{DType::i64, {2}},
                    "random_uniform: the state must be i64[2] (seed, step), got ", in[0]);
            attrs.integer("site");
            TensorType type = type_attr("random_uniform", attrs);
            require_float("random_uniform", type);
            return one_type(std::move(type));
          },
      .index =
          [](const NodeView& node) {
            Signature s = same_shape_signature(node);
            s.in[0] = {never_split};  // seed and step stay together
            return s;
          },
      .localise =
          [](const LocalView& view) {
            Attrs attrs = with_local_shape(view);
            Ints begin;  // logical position; in a micro-batch, the attributes already contain its position
            for (const Range& range : view.out[0])
              begin.push_back(range.begin + (attrs.has("begin") ? attrs.ints("begin")[begin.size()] : 0));
            attrs.set("begin", begin);
            if (!attrs.has("logical")) attrs.set("logical", view.node.out_type(0).shape);
            return attrs;
          },
      .no_grad = "its operand is a seed and a step",
      // Ten rounds of Philox give four words: about 20 operations per element, counted as memory work of equal time.
      .cost =
          [](std::span<const TensorType> in, std::span<const TensorType> out, const Attrs&) {
            return Cost{WorkClass::memory, 0, 4 * bytes_of(in, out)};
          }};
}

}  // namespace

std::vector<OpDef> source_ops() { return {input(), variable(), iota(), random_uniform()}; }

}  // namespace karez::ops
