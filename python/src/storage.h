// The storage that a tensor shares with its views, so that a write through one of them changes all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "karez/api/tensor.h"

namespace karez::python {

using Ints = std::vector<std::int64_t>;

// One step from a tensor to a view of it, as in PyTorch. Values of programs never change: a write makes a new value of
// the tensor, and views are computed from it again.
struct ViewStep {
  // slice: in each dimension d, count[d] elements from first[d] on, step[d] apart; shape: the elements in row-major
  // order, with the sizes `count`; permutation: dimension i of the view is dimension first[i]; expansion: to the sizes
  // `count`; detached: the tensor without its gradient.
  enum class Kind : std::uint8_t { slice, shape, permutation, expansion, detached };
  Kind kind;
  Ints count = {}, first = {}, step = {};
};

// Computes the view of a tensor.
Tensor view_of(const Term& tensor, const ViewStep& step);
// Computes the tensor after a write of `value` to its view. An expansion cannot be written.
Tensor after_write(const Term& tensor, const ViewStep& step, const Term& value);

// The strides, in elements, that PyTorch gives a view of a tensor with these sizes and strides. They determine whether
// a reshape is a view or a copy: for a reshape that PyTorch copies, the result is nothing.
std::optional<Ints> strides_of(const ViewStep& step, const Shape& shape, const Ints& strides);

// The value that a tensor and its views share.
struct Storage {
  std::variant<std::monostate, Tensor, Parameter> value;  // nothing if it was never written and one tensor is left
  std::uint64_t version = 0;                              // the number of writes
  bool is_read_in_trace = false;                          // a program has the numbers as constants
  int argument = -1;                                      // of a function that is being compiled, or -1
};

// How a tensor follows from a storage. The tensor without steps has the value of the storage.
struct Alias {
  std::shared_ptr<Storage> storage;
  std::vector<ViewStep> steps;
  Ints strides;           // as PyTorch's
  std::uint64_t version;  // of the storage when the content was computed

  Alias(std::shared_ptr<Storage> storage, std::vector<ViewStep> steps, Ints strides);
  Alias(const Alias&) = delete;
  Alias& operator=(const Alias&) = delete;
  ~Alias();
};

}  // namespace karez::python
