// Functions that make numbers for training from images and labels: normalisation, one-hot labels and mix-up.
#include <cmath>
#include <numbers>

#include "karez/data/images/image_field.h"

namespace karez::data::images {
namespace {

template <class T>
void normalize_plainly(const T* in, std::int64_t pixels, std::int64_t channels, const float* mean, const float* std,
                       bool planes, float* out) {
  for (std::int64_t i = 0; i < pixels; ++i)
    for (std::int64_t c = 0; c < channels; ++c) {
      float x = static_cast<float>(*in++);
      if constexpr (sizeof(T) == 1) x /= 255.0f;
      out[planes ? c * pixels + i : i * channels + c] = (x - mean[c]) / std[c];
    }
}

HostArray normalized(const HostArray& image, const std::vector<float>& mean, const std::vector<float>& std, bool planes,
                     const NormalizeKernels& kernels) {
  const ImageSize size(image, "normalize");
  for (const std::vector<float>* numbers : {&mean, &std})
    require(ErrorKind::shape, numbers->size() == 1 || static_cast<std::int64_t>(numbers->size()) == size.channels,
            "normalize: expected 1 or ", size.channels, " numbers, one for each channel, got ", numbers->size());
  require(ErrorKind::type, image.dtype() == DType::u8 || image.dtype() == DType::f32,
          "normalize: expected an image of u8 or f32, got ", image.dtype());
  HostArray out(TensorType{DType::f32, planes ? Shape{size.channels, size.height, size.width} : image.shape()});
  if (image.count() == 0) return out;
  const auto of_channels = [&](const std::vector<float>& numbers) {
    return numbers.size() == 1 ? std::vector<float>(static_cast<std::size_t>(size.channels), numbers[0]) : numbers;
  };
  const std::vector<float> means = of_channels(mean), deviations = of_channels(std);
  const auto apply = [&](auto kernel, const auto* in) {
    kernel(in, size.height * size.width, size.channels, means.data(), deviations.data(), planes,
           out.data<float>().data());
  };
  if (image.dtype() == DType::u8) {
    apply(kernels.bytes ? kernels.bytes : normalize_plainly<std::uint8_t>, image.data<std::uint8_t>().data());
  } else {
    apply(kernels.floats ? kernels.floats : normalize_plainly<float>, image.data<float>().data());
  }
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

ImageFunction normalize(std::vector<float> mean, std::vector<float> std, bool planes, const NormalizeKernels& kernels) {
  require(!mean.empty() && !std.empty(), "normalize: mean and std must have at least one number");
  for (float deviation : std)
    require(deviation > 0 && std::isfinite(deviation), "normalize: a number of std must be above 0, got ", deviation);
  return [mean = std::move(mean), std = std::move(std), planes, kernels](const Element& element) {
    return with_field(element, normalized(array_of(element), mean, std, planes, kernels));
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
