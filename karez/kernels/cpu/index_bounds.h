// Checks indices and finds the local rows that they select, for plain kernels that select rows by index.
#pragma once

#include <string>

#include "karez/base/attrs.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

inline bool is_index(const View& view) { return view.dtype == DType::i32 || view.dtype == DType::i64; }

template <class Body> decltype(auto) with_index(DType dtype, Body&& body) {
  return dtype == DType::i32 ? body.template operator()<std::int32_t>() : body.template operator()<std::int64_t>();
}

// The valid indices of a table with `limit` rows, of which rows offset to offset + count - 1 are stored locally.
class IndexBounds {
 public:
  IndexBounds(const CallSpec& call, const View& index, std::int64_t count)
      : op_(call.op),
        name_(call.attrs.text("of", "the index")),
        shape_(index.shape),
        begin_(call.attrs.has("begin") ? call.attrs.ints("begin") : Ints(index.shape.size(), 0)),
        offset_(call.attrs.integer("offset", 0)),
        count_(count),
        limit_(call.attrs.integer("limit", offset_ + count)) {
    require_fit(begin_.size() == shape_.size() && offset_ >= 0 && offset_ + count <= limit_, call,
                "offset, limit or begin is out of range");
  }

  // Returns the local row, or -1 if another device stores it. `n` is the logical position of the element in the index.
  std::int64_t row(std::int64_t index, std::int64_t n) const {
    if (index < 0 || index >= limit_) [[unlikely]]
      report(index, n);
    const std::int64_t row = index - offset_;
    return row >= 0 && row < count_ ? row : -1;
  }

 private:
  // Reports the position in the logical index, so that the text does not depend on the layout of the index.
  [[noreturn]] void report(std::int64_t index, std::int64_t n) const {
    Ints position = begin_;
    for (std::size_t d = shape_.size(); d-- > 0; n /= shape_[d]) position[d] += n % shape_[d];
    fail(ErrorKind::data, op_, ": ", name_, " ", index, " at ", position, " is outside ",
         limit_ == 0 ? "an empty table" : cat("0 to ", limit_ - 1));
  }

  std::string op_, name_;
  Shape shape_;
  Ints begin_;
  std::int64_t offset_, count_, limit_;
};

}  // namespace karez::kernels
