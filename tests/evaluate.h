// Evaluates single calls on kernel rows, and graphs node by node, for tests. Arguments and results are row-major;
// operands of calls have the views of stored values.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "karez/device/host_array.h"
#include "karez/graph/op.h"
#include "karez/kernels/kernel.h"
#include "karez/passes/lowering/call.h"
#include "tests/namespace.h"

namespace karez::tests {

// An array in memory with the strides of a view; the gaps between elements contain a pattern.
class StridedArray {
 public:
  explicit StridedArray(View view) : view_(std::move(view)), bytes_(TensorType{DType::b8, {view_.bytes()}}) {
    std::fill_n(bytes_.bytes(), view_.bytes(), std::byte{0x7F});
  }
  StridedArray(View view, const HostArray& array) : StridedArray(std::move(view)) {
    each_element([&](std::size_t number, std::size_t place, std::size_t size) {
      std::memcpy(bytes_.bytes() + place * size, array.bytes() + number * size, size);
    });
  }
  HostArray array() const {
    HostArray out(view_.type());
    each_element([&](std::size_t number, std::size_t place, std::size_t size) {
      std::memcpy(out.bytes() + number * size, bytes_.bytes() + place * size, size);
    });
    return out;
  }
  std::byte* bytes() const { return bytes_.bytes(); }

 private:
  // Calls visit(number of the element in row-major order, offset by the strides, bytes of the element).
  void each_element(auto visit) const {
    std::int64_t count = 1;
    for (std::int64_t size : view_.shape) count *= size;
    for (std::int64_t number = 0; number < count; ++number) {
      std::int64_t remainder = number, place = 0;
      for (std::size_t d = view_.shape.size(); d-- > 0; remainder /= view_.shape[d])
        place += remainder % view_.shape[d] * view_.strides[d];
      visit(static_cast<std::size_t>(number), static_cast<std::size_t>(place),
            static_cast<std::size_t>(size_of(view_.dtype)));
    }
  }

  View view_;
  HostArray bytes_;
};

std::vector<HostArray> run_call(const KernelRow& row, const CallSpec& call, std::span<const HostArray> in);

// Makes the call of a node with localised attributes, on operands of the given types with the views of stored values.
CallSpec stored_call(const NodeView& node, const std::vector<TensorType>& in, const std::vector<TensorType>& out,
                     const Attrs& local);

// Runs a call on the kernel that the table selects. If the call has fewer operands than the node, they are the last
// operands of the node: the call of assign(old, value) reads only the value.
std::vector<HostArray> run_call(const KernelTable& table, const CallSpec& call, std::span<const HostArray> in);

// Returns the attributes of a node whose tensors are on one device.
Attrs whole_attrs(const NodeView& node);

// Computes the values of a graph on one device; `feed` has the inputs and variables by name.
ById<ValueId, HostArray> evaluate(const KernelTable& table, const Graph& graph,
                                  const std::map<std::string, HostArray>& feed);

}  // namespace karez::tests
