// Element types: their names and sizes, and dispatch from the run-time tag to the C++ type.
#pragma once

#include <cstdint>
#include <ostream>
#include <string_view>

#include "karez/base/error.h"
#include "karez/tensor/half.h"
#include "karez/tensor/namespace.h"

namespace karez::tensor {

enum class DType : std::uint8_t { f32, f64, i32, i64, b8, bf16, f16, u8 };
inline constexpr DType all_dtypes[] = {DType::f32, DType::f64,  DType::i32, DType::i64,
                                       DType::b8,  DType::bf16, DType::f16, DType::u8};

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::f64:
    case DType::i64: return 8;
    case DType::b8:
    case DType::u8: return 1;
    case DType::bf16:
    case DType::f16: return 2;
  }
  return 0;
}
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::b8: return "bool";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::u8: return "u8";
  }
  return "?";
}
inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

inline DType dtype_from(std::string_view name) {
  for (DType d : all_dtypes)
    if (name_of(d) == name) return d;
  fail(ErrorKind::name, "unknown dtype '", name, "'; expected one of: f32, f64, i32, i64, bool, bf16, f16, u8");
}
constexpr bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }
constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f64 || is_half(dtype); }
// Returns whether a sum of this type may be Partial, with summands on several devices. Halves may not, because a
// product of halves is accumulated in f32 and rounded when the sum is complete.
constexpr bool has_partial_sums(DType dtype) { return dtype != DType::b8 && !is_half(dtype); }

template <class T> constexpr DType dtype_of();
template <> constexpr DType dtype_of<float>() { return DType::f32; }
template <> constexpr DType dtype_of<double>() { return DType::f64; }
template <> constexpr DType dtype_of<std::int32_t>() { return DType::i32; }
template <> constexpr DType dtype_of<std::int64_t>() { return DType::i64; }
template <> constexpr DType dtype_of<bool>() { return DType::b8; }
template <> constexpr DType dtype_of<Bf16>() { return DType::bf16; }
template <> constexpr DType dtype_of<F16>() { return DType::f16; }
template <> constexpr DType dtype_of<std::uint8_t>() { return DType::u8; }

// with_type(dtype, [&]<class T>() { ... }) runs the body with T as the element type.
template <class Body> decltype(auto) with_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f32: return body.template operator()<float>();
    case DType::f64: return body.template operator()<double>();
    case DType::i32: return body.template operator()<std::int32_t>();
    case DType::i64: return body.template operator()<std::int64_t>();
    case DType::b8: return body.template operator()<bool>();
    case DType::bf16: return body.template operator()<Bf16>();
    case DType::f16: return body.template operator()<F16>();
    case DType::u8: return body.template operator()<std::uint8_t>();
  }
  fail(ErrorKind::type, "a dtype with tag ", static_cast<int>(dtype), " does not exist");
}

}  // namespace karez::tensor
