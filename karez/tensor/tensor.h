// Descriptions of tensors: element type, logical shape and strides, without ownership of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/base/scanner.h"
#include "karez/tensor/dtype.h"
#include "karez/tensor/namespace.h"

namespace karez::tensor {

using Shape = std::vector<std::int64_t>;
using Strides = std::vector<std::int64_t>;  // in elements

std::int64_t count_of(const Shape& shape);  // the product of the sizes, 1 for a scalar; throws on overflow

// The logical type of a tensor: "f32[64, 10]".
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;

  int rank() const { return static_cast<int>(shape.size()); }
  std::int64_t count() const { return count_of(shape); }
  std::int64_t bytes() const { return checked_mul(count(), size_of(dtype)); }
  bool operator==(const TensorType&) const = default;
};
std::string print(const TensorType& type);
TensorType parse_type(Scanner& in);
inline std::ostream& operator<<(std::ostream& out, const TensorType& type) { return out << print(type); }

// Strides that store the dimensions in some order. The logical order is n c h w also for channels-last strides.
Strides row_major(const Shape& shape);
Strides channels_last(const Shape& shape);  // of [n, c, h, w], with c fastest; other ranks are row-major
// True if the strides are a permutation of row-major strides, without gaps or overlap.
bool is_dense(const Shape& shape, const Strides& strides);
// True if a and b are equal except in dimensions of size 1. True for every tensor without elements.
bool same_order(const Shape& shape, const Strides& a, const Strides& b);

// A typed view of bytes: shape and strides in elements, without an address.
struct View {
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;

  View();
  View(const View&);
  View(View&&) noexcept;
  View& operator=(const View&);
  View& operator=(View&&) noexcept;
  ~View();
  View(DType dtype, Shape shape);  // row-major
  View(DType dtype, Shape shape, Strides strides);
  explicit View(const TensorType& type);

  TensorType type() const { return {dtype, shape}; }
  int rank() const { return static_cast<int>(shape.size()); }
  std::int64_t count() const { return count_of(shape); }
  std::int64_t extent() const;  // number of elements from the first to the last; 0 if empty
  std::int64_t bytes() const { return checked_mul(extent(), size_of(dtype)); }
  bool contiguous() const { return same_order(shape, strides, row_major(shape)); }
  bool operator==(const View&) const = default;
};
// "f32[2, 3]" if row-major, otherwise "f32[2, 3]{1, 2}" with the strides in braces; parse_view parses it.
std::string print(const View& view);
View parse_view(Scanner& in);
inline std::ostream& operator<<(std::ostream& out, const View& view) { return out << print(view); }

// A view with an address, as kernels receive it.
struct TensorRef {
  std::byte* data = nullptr;
  const View* view = nullptr;

  template <class T> T* as() const { return reinterpret_cast<T*>(data); }
  const Shape& shape() const { return view->shape; }
  const Strides& strides() const { return view->strides; }
  std::int64_t count() const { return view->count(); }
};

// Calls body(index) for every index of `shape`, in row-major order.
template <class Body> void for_each_index(const Shape& shape, Body&& body) {
  if (count_of(shape) == 0) return;
  std::vector<std::int64_t> index(shape.size(), 0);
  while (true) {
    body(static_cast<const std::vector<std::int64_t>&>(index));
    int d = static_cast<int>(shape.size()) - 1;
    for (; d >= 0; --d) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}
std::int64_t offset_of(const std::vector<std::int64_t>& index, const Strides& strides);

}  // namespace karez::tensor
