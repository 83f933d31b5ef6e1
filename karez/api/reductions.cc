// Reductions of tensors, and the index of the largest or smallest element.
#include <algorithm>
#include <string_view>

#include "karez/api/functions.h"
#include "karez/api/trace/axes.h"
#include "karez/api/trace/shared_call.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/compose.h"
#include "karez/ops/integers.h"
#include "karez/ops/norms.h"

namespace karez {
namespace {

// Throws if a maximum or minimum would be taken over no elements. The op itself allows this and returns an identity
// element, because shards may be empty. A result without elements needs no check.
void require_elements(std::string_view what, const TensorType& type, const Ints& axes) {
  Shape result = type.shape;
  for (auto axis : axes) result[static_cast<std::size_t>(axis)] = 1;
  if (std::find(result.begin(), result.end(), 0) != result.end()) return;
  for (auto axis : axes)
    require(ErrorKind::shape, type.shape[static_cast<std::size_t>(axis)] != 0, what, " of ", type, ": dimension ", axis,
            " has no elements to choose from");
}

// Applies a reduction; if `keep` is true, the reduced axes stay with size 1. `selection` is the name of the function if
// it selects one of the elements ("max", "min"), otherwise empty.
Tensor reduce(const Term& x, const Ints& axes, bool keep, ValueId (*op)(Builder&, ValueId, const Ints&),
              std::string_view selection = {}) {
  return at_line_shared(x.where, CallKey("reduce", op, axes, keep, selection), {&x}, [&](Trace& t) {
    ValueId id = t.value(x);
    Shape shape = t.graph.type(id).shape;
    Ints all = axes_or_all(axes, static_cast<int>(shape.size()));
    if (!selection.empty()) require_elements(selection, t.graph.type(id), all);
    ValueId out = op(t.builder, id, all);
    if (!keep) return t.tensor(out);
    for (auto axis : all) shape[static_cast<std::size_t>(axis)] = 1;
    return t.tensor(build::reshape(t.builder, out, shape));
  });
}

}  // namespace

Tensor sum(Term x, Ints axes, bool keep) {
  return reduce(x, axes, keep, [](Builder& b, ValueId value, const Ints& all) {
    return build::reduce_sum(b, is_float(b.type(value).dtype) ? value : build::cast(b, value, DType::i64), all);
  });
}
Tensor max(Term x, Ints axes, bool keep) {
  return reduce(
      x, axes, keep,
      [](Builder& b, ValueId value, const Ints& all) {
        return build::reduce_extremum(b, value, all, build::reduce_max);
      },
      "max");
}
Tensor min(Term x, Ints axes, bool keep) {
  return reduce(
      x, axes, keep,
      [](Builder& b, ValueId value, const Ints& all) {
        return build::reduce_extremum(b, value, all, build::reduce_min);
      },
      "min");
}
Tensor mean(Term x, Ints axes, bool keep) {
  return reduce(x, axes, keep, [](Builder& b, ValueId value, const Ints& all) {
    require(ErrorKind::type, is_float(b.type(value).dtype), "mean: expected a floating-point tensor, got ",
            b.type(value), "; cast it to a float first");
    return build::mean(b, value, all);
  });
}

Tensor arg_max(Term x, int axis) {
  return at_line_shared(x.where, CallKey("arg_max", axis), {&x}, [&](Trace& t) {
    ValueId id = build::as_numbers(t.builder, t.value(x));
    const Ints along = axes_or_all({axis}, t.graph.type(id).rank());
    require_elements("arg_max", t.graph.type(id), along);
    return t.tensor(build::arg_max(t.builder, id, static_cast<int>(along[0])));
  });
}

// arg_min is the arg_max of a decreasing function of x: the negative, or for integers the complement, which cannot
// overflow.
Tensor arg_min(Term x, int axis) {
  return at_line(x.where, [&](Trace& t) {
    ValueId id = build::as_numbers(t.builder, t.value(x));
    const TensorType type = t.graph.type(id);
    const Ints along = axes_or_all({axis}, type.rank());
    require_elements("arg_min", type, along);
    const auto dim = static_cast<int>(along[0]);
    Builder& b = t.builder;
    return t.tensor(build::arg_max(
        b, is_float(type.dtype) ? build::neg(b, id) : build::sub(b, build::full_like(b, id, -1), id), dim));
  });
}

Tensor any(Term x, Ints axes, bool keep) {
  return reduce(x, axes, keep, [](Builder& b, ValueId value, const Ints& all) {
    require(ErrorKind::type, b.type(value).dtype == DType::b8, "any: expected bool, got ", b.type(value));
    return build::reduce_extremum(b, value, all, build::reduce_max);
  });
}
Tensor all(Term x, Ints axes, bool keep) {
  return reduce(x, axes, keep, [](Builder& b, ValueId value, const Ints& all) {
    require(ErrorKind::type, b.type(value).dtype == DType::b8, "all: expected bool, got ", b.type(value));
    return build::reduce_extremum(b, value, all, build::reduce_min);
  });
}

Tensor var(Term x, Ints axes, bool keep, std::int64_t correction) {
  return at_line(x.where, [&](Trace& t) {
    ValueId id = t.value(x);
    return t.tensor(build::variance(t.builder, id, axes_or_all(axes, t.graph.type(id).rank()), keep, correction));
  });
}
Tensor stddev(Term x, Ints axes, bool keep, std::int64_t correction) {
  return at_line(x.where, [&](Trace& t) {
    ValueId id = t.value(x);
    Builder& b = t.builder;
    const ValueId operands[] = {
        build::variance(b, build::widened(b, id), axes_or_all(axes, t.graph.type(id).rank()), keep, correction)};
    // Avoids the square root at 0, where its slope is infinite: the gradient of equal elements is 0, as in PyTorch.
    const ValueId root = build::pointwise(b, "select(x0 == 0, 0, sqrt(select(x0 == 0, 1, x0)))", operands);
    return t.tensor(build::cast(b, root, t.graph.type(id).dtype));
  });
}
Tensor norm(Term x, double p, Ints axes, bool keep) {
  return at_line(x.where, [&](Trace& t) {
    ValueId id = t.value(x);
    return t.tensor(build::vector_norm(t.builder, id, p, axes_or_all(axes, t.graph.type(id).rank()), keep));
  });
}

}  // namespace karez
