// Random numbers: nodes keyed by the world's random state and a site of their own.
#include "api/random.h"

#include "api/inside/rooms.h"
#include "api/inside/trace.h"

namespace karez {
namespace {

ValueId uniform(Trace& t, const TensorType& type) {
  require(ErrorKind::type, is_float(type.dtype), "random numbers of ", name_of(type.dtype), "; they are f32 or f64");
  const ValueId state = t.random_state();
  return build::random_uniform(t.builder, state, type, t.site());
}

}  // namespace

Tensor random_uniform(Shape shape, DType dtype, SourceLine where) {
  return at_line(where, [&](Trace& t) { return t.tensor(uniform(t, {dtype, shape})); });
}

Tensor random_normal(Shape shape, DType dtype, SourceLine where) {
  return at_line(where, [&](Trace& t) {
    const TensorType type{dtype, shape};
    const ValueId radius = uniform(t, type), angle = uniform(t, type);
    const ValueId operands[] = {radius, angle};  // 1 - u is in (0, 1], whose logarithm is finite
    return t.tensor(build::pointwise(t.builder, "sqrt(-2 * log(1 - x0)) * cos(6.283185307179586 * x1)", operands));
  });
}

}  // namespace karez
