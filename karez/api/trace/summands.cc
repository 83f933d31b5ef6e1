// The rows of a Partial array, and their sum in a program.
#include "karez/api/trace/summands.h"
#include "karez/api/namespace.h"

#include "karez/ops/build.h"
#include "karez/sbp/effective_layout.h"

namespace karez {

std::optional<Summands> summands_of(const TensorType& type, const Mesh& mesh, const Layout& layout) {
  Summands out{type, effective_layout(mesh, layout)};
  std::int64_t rows = 1;
  bool partial = false;
  for (std::size_t axis = 0; axis < out.layout.size(); ++axis) {
    Sbp& entry = out.layout[axis];
    if (entry.is_split()) ++entry.dim;
    if (!entry.is_partial()) continue;
    partial = true;
    out.reduce = entry.reduce;
    rows *= mesh.axes[axis].size;
    entry = S(0);
  }
  if (!partial) return {};
  out.type.shape.insert(out.type.shape.begin(), rows);
  return out;
}

ValueId array_value(Builder& b, std::string_view name, const TensorType& type, const Mesh& mesh, const Layout& layout) {
  const auto rows = summands_of(type, mesh, layout);
  if (!rows) return build::array_input(b, name, type, layout);
  const ValueId input = build::array_input(b, name, rows->type, rows->layout);
  const auto added = [&](ValueId summands) {
    switch (rows->reduce) {
      case Reduce::max: return build::reduce_max(b, summands, {0});
      case Reduce::min: return build::reduce_min(b, summands, {0});
      case Reduce::sum: break;
    }
    return build::reduce_sum(b, summands, {0});
  };
  return type.dtype == DType::b8 ? build::cast(b, added(build::cast(b, input, DType::i32)), DType::b8) : added(input);
}

}  // namespace karez
