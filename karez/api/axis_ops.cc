// Functions along one axis: running sums, sorting, and selection of elements by index.
#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/build.h"
#include "karez/ops/integers.h"

namespace karez {
namespace {

// Checks the axis, and returns it as a non-negative number.
int checked_axis(std::string_view function, int axis, const TensorType& type) {
  const int out = axis < 0 ? axis + type.rank() : axis;
  require(ErrorKind::shape, out >= 0 && out < type.rank(), function, ": axis ", axis, " of ", type, " does not exist");
  return out;
}

// Sorts along the axis, and returns the first `count` elements, or all elements if `count` is not set.
Sorted sorted(std::string_view function, const Term& x, int axis, bool descending, std::optional<std::int64_t> count) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x);
    const TensorType type = t.graph.type(id);
    const int dim = checked_axis(function, axis, type);
    if (count)
      require(ErrorKind::shape, *count >= 0 && *count <= type.shape[static_cast<std::size_t>(dim)], function,
              ": k must be from 0 to the size of axis ", dim, " of ", type, ", got ", *count);
    const auto result = build::sort(t.builder, build::as_numbers(t.builder, id), dim, descending, count);
    return Sorted{t.tensor(build::cast(t.builder, result.values, type.dtype)), t.tensor(result.indices)};
  });
}

}  // namespace

Tensor where(Term condition, Term x, Term y) { return select(std::move(condition), std::move(x), std::move(y)); }

Tensor cumsum(Term x, int axis) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x);
    const TensorType type = t.graph.type(id);
    return t.tensor(build::cumsum(t.builder, is_float(type.dtype) ? id : build::cast(t.builder, id, DType::i64),
                                  checked_axis("cumsum", axis, type)));
  });
}

Sorted sort(Term x, int axis, bool descending) { return sorted("sort", x, axis, descending, {}); }
Tensor argsort(Term x, int axis, bool descending) { return sorted("argsort", x, axis, descending, {}).indices; }
Sorted topk(Term x, std::int64_t k, int axis, bool largest) { return sorted("topk", x, axis, largest, k); }

Tensor take_along(Term x, Term index, int axis) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x), indices = t.value(index, DType::i64);
    const TensorType type = t.graph.type(id);
    const ValueId elements =
        build::take_along(t.builder, build::as_numbers(t.builder, id), indices, checked_axis("take_along", axis, type));
    return t.tensor(build::cast(t.builder, elements, type.dtype));
  });
}

Tensor add_along(Term index, Term updates, std::int64_t size, int axis) {
  return at_line(updates.where, [&](Trace& t) {
    const ValueId id = t.value(updates), indices = t.value(index, DType::i64);
    const TensorType type = t.graph.type(id);
    const ValueId sums = build::add_along(t.builder, indices, build::as_numbers(t.builder, id), size,
                                          checked_axis("add_along", axis, type));
    return t.tensor(build::cast(t.builder, sums, type.dtype));  // for bools: whether any update at the index is true
  });
}

}  // namespace karez
