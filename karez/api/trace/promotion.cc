// Implements type promotion by the kinds and sizes of types.
#include "karez/api/trace/promotion.h"

#include <optional>

#include "karez/api/namespace.h"
#include "karez/ops/compose.h"

namespace karez {
namespace {

// Kinds are ordered: bool < integers < floats.
int kind_of(DType dtype) { return dtype == DType::b8 ? 0 : is_float(dtype) ? 2 : 1; }

DType wider(DType a, DType b) {
  if (kind_of(a) != kind_of(b)) return kind_of(a) > kind_of(b) ? a : b;
  if (is_half(a) && is_half(b) && a != b) return DType::f32;  // neither represents all values of the other
  return size_of(a) >= size_of(b) ? a : b;
}

}  // namespace

DType promoted(const Trace& trace, std::span<const Term* const> terms) {
  std::optional<DType> groups[3];  // tensors with dimensions, scalar tensors, numbers
  for (const Term* term : terms) {
    const bool is_number = term->is_number() || term->stands_for_number();
    bool is_scalar = !is_number && (term->value.index() == 0 ? std::get<Tensor>(term->value).rank()
                                                             : std::get<Parameter>(term->value).shape().size()) == 0;
    auto& group = groups[is_number ? 2 : is_scalar ? 1 : 0];
    DType dtype = trace.dtype_of(*term);
    group = group ? wider(*group, dtype) : dtype;
  }
  std::optional<DType> out;
  for (const auto& group : groups)
    if (group && (!out || kind_of(*group) > kind_of(*out))) out = group;
  return *out;
}
DType promoted(const Trace& trace, std::initializer_list<const Term*> terms) {
  return promoted(trace, std::span(terms.begin(), terms.size()));
}

bool are_numbers(std::span<const Term* const> terms) {
  bool has_input = false;
  for (const Term* term : terms) {
    if (!term->is_number() && !term->stands_for_number()) return false;
    has_input = has_input || term->stands_for_number();
  }
  return has_input;
}
bool are_numbers(std::initializer_list<const Term*> terms) {
  return are_numbers(std::span(terms.begin(), terms.size()));
}

ValueId as(Trace& trace, const Term& term, DType dtype) {
  return build::cast(trace.builder, trace.value(term, dtype), dtype);
}

}  // namespace karez
