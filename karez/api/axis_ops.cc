// Functions along one axis: running sums, sorting, elements selected by index.
#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/build.h"
#include "karez/ops/integers.h"

namespace karez {
namespace {

int from_front(std::string_view word, int axis, const TensorType& type) {
  const int at = axis < 0 ? axis + type.rank() : axis;
  require(ErrorKind::shape, at >= 0 && at < type.rank(), word, ": axis ", axis, " of ", type, " does not exist");
  return at;
}

Sorted sorted(std::string_view word, const Term& x, int axis, bool descending, std::optional<std::int64_t> first) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x);
    const TensorType type = t.graph.type(id);
    const int along = from_front(word, axis, type);
    if (first)
      require(ErrorKind::shape, *first >= 0 && *first <= type.shape[static_cast<std::size_t>(along)], word, ": ",
              *first, " elements along axis ", along, " of ", type);
    const auto made = build::sort(t.builder, build::as_numbers(t.builder, id), along, descending, first);
    return Sorted{t.tensor(build::cast(t.builder, made.values, type.dtype)), t.tensor(made.indices)};
  });
}

}  // namespace

Tensor where(Term condition, Term x, Term y) { return select(std::move(condition), std::move(x), std::move(y)); }

Tensor cumsum(Term x, int axis) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x);
    const TensorType type = t.graph.type(id);
    return t.tensor(build::cumsum(t.builder, is_float(type.dtype) ? id : build::cast(t.builder, id, DType::i64),
                                  from_front("cumsum", axis, type)));
  });
}

Sorted sort(Term x, int axis, bool descending) { return sorted("sort", x, axis, descending, {}); }
Tensor argsort(Term x, int axis, bool descending) { return sorted("argsort", x, axis, descending, {}).indices; }
Sorted topk(Term x, std::int64_t k, int axis, bool largest) { return sorted("topk", x, axis, largest, k); }

Tensor take_along(Term x, Term index, int axis) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x), places = t.value(index, DType::i64);
    const TensorType type = t.graph.type(id);
    const ValueId taken =
        build::take_along(t.builder, build::as_numbers(t.builder, id), places, from_front("take_along", axis, type));
    return t.tensor(build::cast(t.builder, taken, type.dtype));
  });
}

Tensor add_along(Term index, Term updates, std::int64_t size, int axis) {
  return at_line(updates.where, [&](Trace& t) {
    const ValueId id = t.value(updates), places = t.value(index, DType::i64);
    const TensorType type = t.graph.type(id);
    const ValueId sums = build::add_along(t.builder, places, build::as_numbers(t.builder, id), size,
                                          from_front("add_along", axis, type));
    return t.tensor(build::cast(t.builder, sums, type.dtype));  // for bools: whether any of them is true
  });
}

}  // namespace karez
