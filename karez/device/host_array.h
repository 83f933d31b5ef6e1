// A row-major tensor in host memory with shared ownership of its bytes, for the inputs and results of users. The bytes
// that it allocates are 64-byte aligned.
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
  explicit HostArray(TensorType type);  // filled with zeros
  // Uses existing bytes, which must be row-major and aligned for their elements, and must not be written any more. The
  // last owner frees them.
  HostArray(TensorType type, std::shared_ptr<std::byte[]> bytes);
  template <class T> static HostArray of(Shape shape, const std::vector<T>& values) {
    HostArray out(TensorType{dtype_of<T>(), std::move(shape)});
    require(ErrorKind::shape, static_cast<std::int64_t>(values.size()) == out.count(), "an array of shape ",
            out.shape(), " must have ", out.count(), " values, got ", values.size());
    for (std::size_t i = 0; i < values.size(); ++i) out.data<T>()[i] = values[i];
    return out;
  }

  bool valid() const { return bytes_ != nullptr; }
  bool unique() const { return bytes_.use_count() == 1; }  // whether this is the only owner of the bytes
  TensorType type() const { return view_.type(); }
  const Shape& shape() const { return view_.shape; }
  DType dtype() const { return view_.dtype; }
  std::int64_t count() const { return view_.count(); }
  const View& view() const { return view_; }
  std::byte* bytes() const { return bytes_.get(); }
  TensorRef ref() const { return {bytes_.get(), &view_}; }
  template <class T> std::span<T> data() const {
    require(ErrorKind::type, dtype_of<T>() == view_.dtype, "an array of ", name_of(view_.dtype), " cannot be read as ",
            name_of(dtype_of<T>()));
    return {reinterpret_cast<T*>(bytes_.get()), static_cast<std::size_t>(view_.count())};
  }

 private:
  View view_;
  std::shared_ptr<std::byte[]> bytes_;
};

}  // namespace karez::device
