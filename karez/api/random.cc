// Implements random numbers with nodes that depend on the world's random state and on a site. Numbers of half types are
// drawn in f32 and rounded once.
#include "karez/api/random.h"
#include "karez/api/namespace.h"

#include "karez/api/trace/trace.h"
#include "karez/ops/compose.h"

namespace karez {
namespace {

ValueId uniform(Trace& t, const TensorType& type) {
  require(ErrorKind::type, is_float(type.dtype), "random numbers must have a floating-point dtype, got ",
          name_of(type.dtype));
  const ValueId state = t.random_state();
  return build::random_uniform(t.builder, state, type, t.site());
}

}  // namespace

Tensor random_uniform(Shape shape, DType dtype, SourceLine where) {
  return at_line(where, [&](Trace& t) {
    ValueId numbers = uniform(t, build::widened({dtype, shape}));
    if (is_half(dtype)) {  // the largest number below 1, so that rounding does not give 1
      const double largest = 1 - (dtype == DType::bf16 ? 0x1p-8 : 0x1p-11);
      numbers = build::min(t.builder, numbers, build::full_like(t.builder, numbers, largest));
    }
    return t.tensor(build::cast(t.builder, numbers, dtype));
  });
}

Tensor random_normal(Shape shape, DType dtype, SourceLine where) {
  return at_line(where, [&](Trace& t) {
    const TensorType type = build::widened({dtype, shape});
    const ValueId radius = uniform(t, type), angle = uniform(t, type);
    const ValueId operands[] = {radius, angle};  // 1 - x0 is in (0, 1], so its logarithm is finite
    return t.tensor(build::cast(
        t.builder, build::pointwise(t.builder, "sqrt(-2 * log(1 - x0)) * cos(6.283185307179586 * x1)", operands),
        dtype));
  });
}

}  // namespace karez
