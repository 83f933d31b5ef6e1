// An array as a source: slices are copied element runs at a time, along the last dimension.
#include "data/array_source.h"

#include <array>
#include <cstring>
#include <utility>

#include "data/slice_check.h"

namespace karez::data {
namespace {

class ArraySource : public Source {
 public:
  explicit ArraySource(HostArray array) : array_(std::move(array)), type_(array_.type()) {
    require(array_.valid(), "a source of an array that was never made");
    require(type_.rank() <= most_dimensions, "an array of ", type_.rank(), " dimensions as a source; at most ", most_dimensions);
  }
  TensorType type() const override { return type_; }

  void read(std::int64_t, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    check_slice(type_, begin, out);
    if (out.count() == 0) return;
    const auto& shape = out.shape();
    const auto item = static_cast<std::size_t>(size_of(type_.dtype));
    const std::size_t rank = shape.size();
    if (rank == 0) {
      std::memcpy(out.data, array_.bytes(), item);
      return;
    }
    const std::int64_t run = shape[rank - 1], to_step = out.strides()[rank - 1];
    std::array<std::int64_t, most_dimensions> index{};
    while (true) {
      std::int64_t from = 0, to = 0;
      for (std::size_t d = 0; d < rank; ++d) {
        from += (begin[d] + index[d]) * array_.view().strides[d];
        to += index[d] * out.strides()[d];
      }
      const std::byte* source = array_.bytes() + from * static_cast<std::int64_t>(item);
      std::byte* target = out.data + to * static_cast<std::int64_t>(item);
      if (to_step == 1) {
        std::memcpy(target, source, static_cast<std::size_t>(run) * item);
      } else {
        for (std::int64_t i = 0; i < run; ++i)
          std::memcpy(target + i * to_step * static_cast<std::int64_t>(item), source + i * static_cast<std::int64_t>(item), item);
      }
      std::size_t d = rank - 1;  // the next index of all dimensions but the last
      while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
      if (d == 0) return;
    }
  }

 private:
  static constexpr int most_dimensions = 16;  // the index lives on the stack: reads allocate nothing
  HostArray array_;
  TensorType type_;
};

}  // namespace

std::shared_ptr<const Source> array_source(HostArray array) { return std::make_shared<ArraySource>(std::move(array)); }

}  // namespace karez::data
