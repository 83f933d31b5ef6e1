// Functions that make numbers for training from images and labels: normalisation, one-hot labels and mix-up.
#include <array>
#include <cmath>
#include <numbers>

#include "karez/data/images/image_field.h"

namespace karez::data::images {
namespace {

// Calls store(channel, offset in the result) ... for each sample, in the order of the input.
template <class T, class Convert>
void convert_samples(std::span<const T> in, const ImageSize& size, bool planes, std::span<float> out, Convert convert) {
  const std::int64_t pixels = size.height * size.width;
  for (std::int64_t c = 0; c < size.channels; ++c) {
    float* to = out.data() + (planes ? c * pixels : c);
    const std::int64_t step = planes ? 1 : size.channels;
    const T* from = in.data() + c;
    for (std::int64_t i = 0; i < pixels; ++i, from += size.channels, to += step) *to = convert(c, *from);
  }
}

HostArray normalized(const HostArray& image, const std::vector<float>& mean, const std::vector<float>& std,
                     bool planes) {
  const ImageSize size(image, "normalize");
  for (const std::vector<float>* numbers : {&mean, &std})
    require(ErrorKind::shape, numbers->size() == 1 || static_cast<std::int64_t>(numbers->size()) == size.channels,
            "normalize: expected 1 or ", size.channels, " numbers, one for each channel, got ", numbers->size());
  require(ErrorKind::type, image.dtype() == DType::u8 || image.dtype() == DType::f32,
          "normalize: expected an image of u8 or f32, got ", image.dtype());
  HostArray out(TensorType{DType::f32, planes ? Shape{size.channels, size.height, size.width} : image.shape()});
  const auto of = [](const std::vector<float>& numbers, std::int64_t c) {
    return numbers[numbers.size() == 1 ? 0 : static_cast<std::size_t>(c)];
  };
  const auto apply = [&](std::int64_t c, float x) { return (x - of(mean, c)) / of(std, c); };
  if (image.dtype() == DType::f32) {
    convert_samples<float>(image.data<float>(), size, planes, out.data<float>(), apply);
    return out;
  }
  std::vector<std::array<float, 256>> tables(static_cast<std::size_t>(size.channels));
  for (std::int64_t c = 0; c < size.channels; ++c)
    for (int value = 0; value < 256; ++value)
      tables[static_cast<std::size_t>(c)][static_cast<std::size_t>(value)] =
          apply(c, static_cast<float>(value) / 255.0f);
  convert_samples<std::uint8_t>(
      image.data<std::uint8_t>(), size, planes, out.data<float>(),
      [&](std::int64_t c, std::uint8_t value) { return tables[static_cast<std::size_t>(c)][value]; });
  return out;
}

template <class T> void set_ones(std::span<const T> labels, std::int64_t classes, float* out) {
  for (T label : labels) {
    const auto number = static_cast<std::int64_t>(label);
    require(ErrorKind::data, number >= 0 && number < classes, "one_hot: a label must be at least 0 and below ", classes,
            " (classes), got ", number);
    out[number] = 1;
    out += classes;
  }
}

HostArray one_hot_of(const HostArray& labels, std::int64_t classes) {
  Shape shape = labels.shape();
  shape.push_back(classes);
  HostArray out(TensorType{DType::f32, std::move(shape)});
  float* to = out.data<float>().data();
  switch (labels.dtype()) {
    case DType::i64: set_ones<std::int64_t>(labels.data<std::int64_t>(), classes, to); break;
    case DType::i32: set_ones<std::int32_t>(labels.data<std::int32_t>(), classes, to); break;
    case DType::u8: set_ones<std::uint8_t>(labels.data<std::uint8_t>(), classes, to); break;
    default: fail(ErrorKind::type, "one_hot: expected labels of i64, i32 or u8, got ", labels.dtype());
  }
  return out;
}

// x * ratio + (1 - ratio) * (x rotated by one row)
HostArray mixed(const HostArray& x, float ratio) {
  HostArray out(x.type());
  const std::span<const float> from = x.data<float>();
  const std::span<float> to = out.data<float>();
  if (from.empty()) return out;
  const std::size_t row = from.size() / static_cast<std::size_t>(x.shape()[0]), first = from.size() - row;
  for (std::size_t i = 0; i < from.size(); ++i)
    to[i] = from[i] * ratio + from[i < row ? first + i : i - row] * (1 - ratio);
  return out;
}

}  // namespace

// Marsaglia, Tsang: A Simple Method for Generating Gamma Variables, 2000. A logarithm, because numbers of a small alpha
// are too small for a double.
double RandomNumbers::log_gamma_number(double alpha) {
  const double boost = alpha < 1 ? std::log(1 - uniform()) / alpha : 0;
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    const double normal = radius * std::cos(2 * std::numbers::pi * uniform());
    const double cube = std::pow(1 + c * normal, 3), u = 1 - uniform();
    if (cube > 0 && std::log(u) < normal * normal / 2 + d - d * cube + d * std::log(cube))
      return std::log(d * cube) + boost;
  }
}

double RandomNumbers::beta(double alpha) {
  const double a = log_gamma_number(alpha), b = log_gamma_number(alpha);
  return 1 / (1 + std::exp(b - a));
}

ImageFunction normalize(std::vector<float> mean, std::vector<float> std, bool planes) {
  require(!mean.empty() && !std.empty(), "normalize: mean and std must have at least one number");
  for (float deviation : std)
    require(deviation > 0 && std::isfinite(deviation), "normalize: a number of std must be above 0, got ", deviation);
  return [mean = std::move(mean), std = std::move(std), planes](const Element& element) {
    return with_field(element, normalized(array_of(element), mean, std, planes));
  };
}

ImageFunction one_hot(std::int64_t classes, std::int64_t field) {
  require(classes >= 1, "one_hot: classes must be at least 1, got ", classes);
  return [=](const Element& element) {
    const auto fields = static_cast<std::int64_t>(element.fields.size());
    require(field >= -fields && field < fields, "one_hot: the element has ", fields,
            " fields, but the labels must be in field ", field);
    const auto number = static_cast<std::size_t>(field < 0 ? field + fields : field);
    return with_field(element, one_hot_of(array_of(element, number), classes), number);
  };
}

RandomImageFunction mix_up(double alpha) {
  require(alpha > 0 && std::isfinite(alpha), "mix_up: alpha must be above 0, got ", alpha);
  return [=](const Element& element, const RandomKey& key) {
    const auto ratio = static_cast<float>(RandomNumbers(key, "mix_up").beta(alpha));
    const HostArray &x = array_of(element, 0), &y = array_of(element, 1);
    for (const HostArray* array : {&x, &y})
      require(ErrorKind::type, array->dtype() == DType::f32,
              "mix_up: expected images and labels of f32 (normalize, one_hot), got ", array->dtype());
    require(ErrorKind::shape, !x.shape().empty() && !y.shape().empty() && x.shape()[0] == y.shape()[0],
            "mix_up: expected as many labels as images, got shapes ", x.shape(), " and ", y.shape());
    return with_field(with_field(element, mixed(x, ratio)), mixed(y, ratio), 1);
  };
}

}  // namespace karez::data::images
