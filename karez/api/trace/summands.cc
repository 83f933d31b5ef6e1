// Implements the storage of Partial arrays as rows, and the reduction of the rows in a program.
#include "karez/api/trace/summands.h"
#include "karez/api/namespace.h"

#include "karez/ops/build.h"
#include "karez/sbp/effective_layout.h"

namespace karez {

std::optional<Summands> summands_of(const TensorType& type, const Mesh& mesh, const Layout& layout) {
  Summands out{type, effective_layout(mesh, layout)};
  std::int64_t rows = 1;
  bool is_partial = false;
  for (std::size_t axis = 0; axis < out.layout.size(); ++axis) {
    Sbp& entry = out.layout[axis];
    if (entry.is_split()) ++entry.dim;
    if (!entry.is_partial()) continue;
    is_partial = true;
    out.reduce = entry.reduce;
    rows *= mesh.axes[axis].size;
    entry = S(0);
  }
  if (!is_partial) return {};
  out.type.shape.insert(out.type.shape.begin(), rows);
  return out;
}

ValueId array_value(Builder& b, std::string_view name, const TensorType& type, const Mesh& mesh, const Layout& layout) {
  const auto summands = summands_of(type, mesh, layout);
  if (!summands) return build::array_input(b, name, type, layout);
  const ValueId input = build::array_input(b, name, summands->type, summands->layout);
  const auto reduce = [&](ValueId rows) {
    switch (summands->reduce) {
      case Reduce::max: return build::reduce_max(b, rows, {0});
      case Reduce::min: return build::reduce_min(b, rows, {0});
      case Reduce::sum: break;
    }
    return build::reduce_sum(b, rows, {0});
  };
  return type.dtype == DType::b8 ? build::cast(b, reduce(build::cast(b, input, DType::i32)), DType::b8) : reduce(input);
}

}  // namespace karez
