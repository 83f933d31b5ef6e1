// Implements the built-in variables and their first values.
#include "karez/api/trace/builtin_variables.h"

#include <span>

#include "karez/api/namespace.h"
#include "karez/api/trace/builtin_names.h"
#include "karez/api/trace/scoped_value.h"
#include "karez/ops/build.h"

namespace karez {

Parameter random_counter() {
  return {std::string(random_counter_name),
          {DType::i64, {2}},
          [](Builder&, const TensorType&, const std::string&, ValueId state) { return state; },
          "rng"};
}

ValueId first_random_state(Builder& b, std::uint64_t seed) {
  const std::int64_t state[2] = {static_cast<std::int64_t>(seed), 0};
  return build::constant(b, {DType::i64, {2}}, std::as_bytes(std::span(state)));
}

ValueId first_value(Builder& b, const Parameter& parameter, ValueId random_state) {
  ScopedValue path(b.path, parameter.name());
  const ValueId first = parameter.init()(b, parameter.type(), parameter.site(), random_state);
  require(b.type(first) == parameter.type(), "variable '", parameter.name(), "' is ", parameter.type(),
          "; its initialiser makes ", b.type(first));
  return first;
}

LossScaleState::LossScaleState(std::size_t number)
    : scale(cat(loss_scale_prefix, "scale", number > 1 ? cat(".", number) : ""), {DType::f32, {}}, constant_init(65536),
            "amp"),
      good(cat(loss_scale_prefix, "good", number > 1 ? cat(".", number) : ""), {DType::i64, {}}, constant_init(0),
           "amp") {}

}  // namespace karez
