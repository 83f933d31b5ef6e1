// Initialisers: small programs that compute the first values of parameters.
#include <cmath>
#include <span>

#include "karez/api/namespace.h"
#include "karez/api/tensor.h"
#include "karez/base/hash.h"
#include "karez/ops/build.h"
#include "karez/ops/compose.h"

namespace karez {

Initialiser constant_init(double value) {
  return [value](Builder& b, const TensorType& type, const std::string&, ValueId) {
    return build::constant(b, type, value);
  };
}

Initialiser value_init(HostArray value) {
  require(value.valid(), "value_init: the array is uninitialised");
  return [value = std::move(value)](Builder& b, const TensorType& type, const std::string&, ValueId) {
    const DType dtype = value.type().dtype;
    const ValueId elements =
        build::constant(b, value.type(), std::span(value.bytes(), static_cast<std::size_t>(value.type().bytes())));
    const bool is_adapted = dtype != type.dtype && tensor::is_float(dtype) && tensor::is_float(type.dtype);
    return is_adapted ? build::cast(b, elements, type.dtype) : elements;
  };
}

Initialiser uniform_init(double bound) {
  require(std::isfinite(bound) && bound >= 0, "uniform_init: bound must be finite and at least 0, got ", bound);
  return [bound](Builder& b, const TensorType& type, const std::string& site, ValueId state) {
    const TensorType wide = build::widened(type);
    // The hash is shortened to 63 bits, because the site of a random node must not be negative.
    ValueId unit = build::random_uniform(b, state, wide, static_cast<std::int64_t>(hash_text(site) >> 1));
    ValueId scaled = build::binary(b, "mul", unit, build::scalar(b, wide.dtype, 2 * bound));
    return build::cast(b, build::binary(b, "sub", scaled, build::scalar(b, wide.dtype, bound)), type.dtype);
  };
}

Initialiser normal_init(double deviation) {
  require(std::isfinite(deviation) && deviation >= 0, "normal_init: deviation must be finite and at least 0, got ",
          deviation);
  return [deviation](Builder& b, const TensorType& type, const std::string& site, ValueId state) {
    const TensorType wide = build::widened(type);
    auto uniform = [&](std::string_view suffix) {
      return build::random_uniform(b, state, wide, static_cast<std::int64_t>(hash_text(cat(site, suffix)) >> 1));
    };
    // 1 - x0 is in (0, 1], so its logarithm is finite.
    ValueId operands[] = {uniform(" radius"), uniform(" angle"), build::full(b, wide.dtype, type.shape, deviation)};
    return build::cast(b, build::pointwise(b, "x2 * sqrt(-2 * log(1 - x0)) * cos(6.283185307179586 * x1)", operands),
                       type.dtype);
  };
}

Initialiser zero_row_init(Initialiser rows, std::int64_t row) {
  require(rows != nullptr, "zero_row_init: the initialiser is empty");
  return [rows = std::move(rows), row](Builder& b, const TensorType& type, const std::string& site, ValueId state) {
    require(!type.shape.empty() && row >= 0 && row < type.shape[0], "zero_row_init: ", type, " has no row ", row);
    const ValueId values = rows(b, type, site, state), rows_of_elements = build::iota(b, {DType::i64, type.shape}, 0);
    return build::select(
        b, build::eq(b, rows_of_elements, build::full_like(b, rows_of_elements, static_cast<double>(row))),
        build::full_like(b, values, 0), values);
  };
}

}  // namespace karez
