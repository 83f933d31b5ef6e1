// Functions of tensors that make numbers for training from images and labels.
#include <cmath>
#include <numbers>

#include "karez/api/images.h"
#include "karez/api/images/image_value.h"
#include "karez/ops/compose.h"

namespace karez::data::images {
namespace {

// The logarithms of `count` random numbers of the gamma distribution, by the method of RandomNumbers::log_gamma_number
// with a fixed number of trials, each of which succeeds with a probability of more than 0.95.
ValueId log_gamma_numbers(Trace& t, std::int64_t count, double alpha) {
  Builder& b = t.builder;
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3;
  const Shape trials = {count, 16};
  const ValueId radius = uniform_numbers(t, trials), angle = uniform_numbers(t, trials),
                uniform = uniform_numbers(t, trials);
  const ValueId normal =
      expression(b, "sqrt(-2 * log(1 - x0)) * cos(x2 * x1)", {radius, angle, number(b, 2 * std::numbers::pi)});
  const ValueId root = build::binary(b, "mul", normal, number(b, 1 / std::sqrt(9 * d)));
  const ValueId cube = expression(b, "(1 + x0) * (1 + x0) * (1 + x0)", {root});
  const ValueId accepted =
      expression(b, "select(x0 > 0 && log(1 - x2) < x1 * x1 / 2 + x3 - x3 * x0 + x3 * log(x0), 1, 0)",
                 {cube, normal, uniform, number(b, d)});
  const ValueId first = build::reshape(b, build::arg_max(b, accepted, 1), {count, 1});
  const ValueId result = build::take_along(b, expression(b, "log(x0 * x1)", {cube, number(b, d)}), first, 1);
  if (alpha >= 1) return result;
  const ValueId boost = uniform_numbers(t, {count, 1});
  return expression(b, "x0 + log(1 - x1) * x2", {result, boost, number(b, 1 / alpha)});
}

MixedRows mixed(Trace& t, const Term& images, const Term& labels, ValueId ratio) {
  Builder& b = t.builder;
  const ValueId x = t.value(images, t.dtype_of(images)), y = t.value(labels, t.dtype_of(labels));
  const TensorType x_type = b.type(x), y_type = b.type(y), ratio_type = b.type(ratio);
  for (const TensorType* type : {&x_type, &y_type})
    require(ErrorKind::type, type->dtype == DType::f32,
            "mix_up: expected images and labels of f32 (normalize, one_hot), got ", type->dtype);
  require(ErrorKind::shape, x_type.rank() > 0 && y_type.rank() > 0 && x_type.shape[0] == y_type.shape[0],
          "mix_up: expected as many labels as images, got shapes ", x_type.shape, " and ", y_type.shape);
  require(ErrorKind::shape, ratio_type.count() == 1, "mix_up: the ratio must be one number, got shape ",
          ratio_type.shape);
  ratio = build::cast(b, build::reshape(b, ratio, {}), DType::f32);
  const ValueId rest = build::binary(b, "sub", number(b, 1), ratio);
  const auto mix = [&](ValueId rows) {
    Shape size = b.type(rows).shape;
    const std::int64_t count = size[0];
    if (count == 0) return t.tensor(rows);
    const auto part = [&](std::int64_t first, std::int64_t end) {
      Ints begin(size.size());
      begin[0] = first, size[0] = end - first;
      return build::slice(b, rows, begin, size);
    };
    ValueId rotated = rows;
    if (count > 1) {
      const ValueId parts[] = {part(count - 1, count), part(0, count - 1)};
      rotated = build::concat(b, parts, 0);
    }
    const ValueId own = build::binary(b, "mul", rows, ratio), other = build::binary(b, "mul", rotated, rest);
    return t.tensor(build::binary(b, "add", own, other));
  };
  Tensor mixed_images = mix(x);
  return {std::move(mixed_images), mix(y)};
}

}  // namespace

Tensor normalize(Term image, std::vector<float> mean, std::vector<float> std, bool planes) {
  return at_line(image.where, [&](Trace& t) {
    normalize(mean, std, planes);  // checks the options
    const ImageValue in(t, image, "normalize");
    Builder& b = in.b;
    for (const std::vector<float>* numbers : {&mean, &std})
      require(ErrorKind::shape, numbers->size() == 1 || static_cast<std::int64_t>(numbers->size()) == in.channels,
              "normalize: expected 1 or ", in.channels, " numbers, one for each channel, got ", numbers->size());
    const DType dtype = in.type().dtype;
    require(ErrorKind::type, dtype == DType::u8 || dtype == DType::f32,
            "normalize: expected an image of u8 or f32, got ", dtype);
    ValueId x = build::cast(b, in.id, DType::f32);
    if (dtype == DType::u8) x = build::binary(b, "div", x, number(b, 255));
    const auto constant = [&](const std::vector<float>& numbers) {
      return build::constant(b, {DType::f32, {static_cast<std::int64_t>(numbers.size())}},
                             std::as_bytes(std::span<const float>(numbers)));
    };
    x = build::binary(b, "sub", x, constant(mean));
    x = build::binary(b, "div", x, constant(std));
    if (!planes) return t.tensor(x);
    const int rank = in.type().rank();
    if (rank == 2) return t.tensor(build::reshape(b, x, {1, in.height, in.width}));
    Ints permutation;
    for (int axis = 0; axis < in.rows_axis; ++axis) permutation.push_back(axis);
    permutation.insert(permutation.end(), {rank - 1, in.rows_axis, in.columns_axis});
    return t.tensor(build::transpose(b, x, permutation));
  });
}

Tensor one_hot(Term labels, std::int64_t classes) {
  return at_line(labels.where, [&](Trace& t) {
    one_hot(classes);
    ValueId id = t.value(labels, t.dtype_of(labels));
    const DType dtype = t.builder.type(id).dtype;
    require(ErrorKind::type, dtype == DType::i64 || dtype == DType::i32 || dtype == DType::u8,
            "one_hot: expected labels of i64, i32 or u8, got ", dtype);
    if (dtype == DType::u8) id = build::cast(t.builder, id, DType::i32);
    return t.tensor(build::one_hot(t.builder, id, classes, DType::f32));
  });
}

MixedRows mix_up(Term images, Term labels, double alpha) {
  return at_line(images.where, [&](Trace& t) {
    mix_up(alpha);
    const ValueId logs = log_gamma_numbers(t, 2, alpha);
    const ValueId first = build::slice(t.builder, logs, {0, 0}, {1, 1}),
                  second = build::slice(t.builder, logs, {1, 0}, {1, 1});
    return mixed(t, images, labels, build::sigmoid(t.builder, build::binary(t.builder, "sub", first, second)));
  });
}

MixedRows mix_up(Term images, Term labels, Term ratio) {
  return at_line(images.where, [&](Trace& t) { return mixed(t, images, labels, t.value(ratio)); });
}

}  // namespace karez::data::images
