// A tensor in host memory with shared ownership of its bytes, for values that users pass in and get out. Row-major;
// bytes that it allocates are 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "karez/device/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::device {

class HostArray {
 public:
  HostArray();
  HostArray(const HostArray&);
  HostArray(HostArray&&) noexcept;
  HostArray& operator=(const HostArray&);
  HostArray& operator=(HostArray&&) noexcept;
  ~HostArray();
  explicit HostArray(TensorType type);  // of zeros
  // Takes bytes that already exist, row-major and aligned for their elements, which no code writes any more; the last
  // owner frees them.
  HostArray(TensorType type, std::shared_ptr<std::byte[]> bytes);
  template <class T> static HostArray of(Shape shape, const std::vector<T>& values) {
    HostArray out(TensorType{dtype_of<T>(), std::move(shape)});
    require(ErrorKind::shape, static_cast<std::int64_t>(values.size()) == out.count(), "an array of shape ",
            out.shape(), " got ", values.size(), " values");
    for (std::size_t i = 0; i < values.size(); ++i) out.data<T>()[i] = values[i];
    return out;
  }

  bool valid() const { return bytes_ != nullptr; }
  bool unique() const { return bytes_.use_count() == 1; }  // the only owner of its bytes
  TensorType type() const { return view_.type(); }
  const Shape& shape() const { return view_.shape; }
  DType dtype() const { return view_.dtype; }
  std::int64_t count() const { return view_.count(); }
  const View& view() const { return view_; }
  std::byte* bytes() const { return bytes_.get(); }
  TensorRef ref() const { return {bytes_.get(), &view_}; }
  template <class T> std::span<T> data() const {
    require(ErrorKind::type, dtype_of<T>() == view_.dtype, "an array of ", name_of(view_.dtype), " is read as ",
            name_of(dtype_of<T>()));
    return {reinterpret_cast<T*>(bytes_.get()), static_cast<std::size_t>(view_.count())};
  }

 private:
  View view_;
  std::shared_ptr<std::byte[]> bytes_;
};

}  // namespace karez::device
