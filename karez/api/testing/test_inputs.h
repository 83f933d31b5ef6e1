// Inputs that several tests use: arrays of numbers, a source of several batches, and a source whose reads block until
// the test lets them continue.
#pragma once

#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "karez/api/compile.h"
#include "karez/api/functions.h"
#include "karez/data/array_source.h"

namespace karez {

template <class... T> HostArray vector_of(T... elements) {
  return HostArray::of<float>({sizeof...(T)}, {static_cast<float>(elements)...});
}

inline HostArray random_floats(Shape shape, std::uint64_t seed) {
  HostArray out(TensorType{DType::f32, std::move(shape)});
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  for (float& x : out.data<float>()) x = number(random);
  return out;
}

inline HostArray random_doubles(Shape shape, std::uint64_t seed) {
  HostArray out(TensorType{DType::f64, std::move(shape)});
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  for (double& x : out.data<double>()) x = number(random);
  return out;
}

// Integers from -3 to 7, so that products and sums are exact in every dtype.
inline HostArray small_integers(DType dtype, Shape shape) {
  HostArray out(TensorType{dtype, std::move(shape)});
  tensor::with_type(dtype, [&]<class T>() {
    auto data = out.data<T>();
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<T>(static_cast<int>(i * 7 % 11) - 3);
  });
  return out;
}

// Returns the value as an array on the mesh, with the partition spec `axes`.
inline Array array_on(const DeviceMesh& mesh, const HostArray& value, const std::vector<std::string>& axes = {}) {
  return compile(mesh, [axes](Tensor x) { return axes.empty() ? x * 1 : with_layout(x, axes); })(value).value();
}

// A source of the given batches, which have equal types: position p is batch p.
class BatchesSource : public Source {
 public:
  explicit BatchesSource(const std::vector<HostArray>& batches) {
    for (const HostArray& batch : batches) batches_.push_back(data::array_source(batch));
  }
  TensorType type() const override { return batches_.at(0)->type(); }
  void read(std::int64_t position, std::span<const std::int64_t> begin, const tensor::TensorRef& out) const override {
    batches_.at(static_cast<std::size_t>(position))->read(position, begin, out);
  }

 private:
  std::vector<std::shared_ptr<const Source>> batches_;
};

// A source whose reads block until `open` is ready and then return 5.
class LateSource : public Source {
 public:
  explicit LateSource(std::shared_future<void> open) : open_(std::move(open)) {}
  TensorType type() const override { return {DType::f32, {}}; }
  void read(std::int64_t, std::span<const std::int64_t>, const tensor::TensorRef& out) const override {
    open_.wait();
    out.as<float>()[0] = 5;
  }

 private:
  std::shared_future<void> open_;
};

}  // namespace karez
