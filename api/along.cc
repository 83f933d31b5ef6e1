// The words for what works along one axis: running sums, sorting, elements picked by index.
#include "api/functions.h"
#include "api/inside/rooms.h"
#include "api/inside/trace.h"
#include "ops/build.h"

namespace karez {
namespace {

int counted(std::string_view word, int axis, const TensorType& type) {
  const int from_front = axis < 0 ? axis + type.rank() : axis;
  require(ErrorKind::shape, from_front >= 0 && from_front < type.rank(), word, ": axis ", axis, " of ", type, " does not exist");
  return from_front;
}

Sorted sorted(std::string_view word, const Term& x, int axis, bool descending, std::optional<std::int64_t> first) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x);
    const TensorType type = t.graph.type(id);
    const int along = counted(word, axis, type);
    if (first)
      require(ErrorKind::shape, *first >= 0 && *first <= type.shape[static_cast<std::size_t>(along)], word, ": ", *first, " elements along axis ",
              along, " of ", type);
    const auto made = build::sort(t.builder, id, along, descending, first);
    return Sorted{t.tensor(made.values), t.tensor(made.indices)};
  });
}

}  // namespace

Tensor where(Term condition, Term x, Term y) { return select(std::move(condition), std::move(x), std::move(y)); }

Tensor cumsum(Term x, int axis) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x);
    const TensorType type = t.graph.type(id);
    return t.tensor(build::cumsum(t.builder, is_float(type.dtype) ? id : build::cast(t.builder, id, DType::i64), counted("cumsum", axis, type)));
  });
}

Sorted sort(Term x, int axis, bool descending) { return sorted("sort", x, axis, descending, {}); }
Tensor argsort(Term x, int axis, bool descending) { return sorted("argsort", x, axis, descending, {}).indices; }
Sorted topk(Term x, std::int64_t k, int axis, bool largest) { return sorted("topk", x, axis, largest, k); }

Tensor take_along(Term x, Term index, int axis) {
  return at_line(x.where, [&](Trace& t) {
    const ValueId id = t.value(x), places = t.value(index, DType::i64);
    return t.tensor(build::take_along(t.builder, id, places, counted("take_along", axis, t.graph.type(id))));
  });
}

Tensor add_along(Term index, Term updates, std::int64_t size, int axis) {
  return at_line(updates.where, [&](Trace& t) {
    const ValueId id = t.value(updates), places = t.value(index, DType::i64);
    return t.tensor(build::add_along(t.builder, places, id, size, counted("add_along", axis, t.graph.type(id))));
  });
}

}  // namespace karez
