// The plain kernels, one list per file. They are simple loops over any strides and the reference for every faster row.
#pragma once

#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "karez/kernels/cpu/resize_weights.h"
#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

std::vector<KernelRow> plain_source_rows();     // constant, iota, random_uniform
std::vector<KernelRow> plain_pointwise_rows();  // pointwise, cast
std::vector<KernelRow> plain_copy_rows();       // copy, reshape, transpose, slice, broadcast, concat, pad
std::vector<KernelRow> plain_matmul_rows();
std::vector<KernelRow> plain_conv_rows();    // conv2d, conv2d_grad_input, conv2d_grad_weight
std::vector<KernelRow> plain_pool_rows();    // max_pool, avg_pool and their gradients
std::vector<KernelRow> plain_reduce_rows();  // reduce_sum, reduce_max, reduce_min, arg_max
std::vector<KernelRow> plain_row_program_rows();
std::vector<KernelRow> plain_gather_rows();  // gather, scatter_add, one_hot
std::vector<KernelRow> plain_axis_rows();    // cumsum, sort, take_along, add_along, resize
std::vector<KernelRow> plain_update_rows();  // sgd, adam, sgd_if, adam_if

// Makes a row named "plain.<op>", with rank 0 and rate 1/20.
KernelRow plain_row(std::string op, std::function<bool(const CallSpec&)> supports,
                    std::function<PreparedKernel(const CallSpec&)> prepare);

// Returns whether the numbers of operands match (-1 stands for any) and no tensor has more dimensions than max_rank.
bool has_operands(const CallSpec& call, int inputs, int outputs);
bool all_dtype(const std::vector<View>& views, DType dtype);

// Unless `ok`, throws an error that shows the call. Used for mismatches that `supports` does not check, because the
// compiler infers the shapes.
void require_fit(bool ok, const CallSpec& call, std::string_view what);

// The weights of a call of resize or resize_grad.
ResizeWeights resize_weights_of(const CallSpec& call, std::size_t axis);

// with_float(dtype, [&]<class T>() { ... }) is with_type restricted to float types.
template <class Body> decltype(auto) with_float(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f32: return body.template operator()<float>();
    case DType::f64: return body.template operator()<double>();
    case DType::bf16: return body.template operator()<tensor::Bf16>();
    case DType::f16: return body.template operator()<tensor::F16>();
    default: fail(ErrorKind::type, "a kernel for floats does not support ", dtype);
  }
}
// with_number(dtype, ...) is with_type restricted to all types except bool.
template <class Body> decltype(auto) with_number(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::i32: return body.template operator()<std::int32_t>();
    case DType::i64: return body.template operator()<std::int64_t>();
    case DType::u8: return body.template operator()<std::uint8_t>();
    default: return with_float(dtype, std::forward<Body>(body));
  }
}

// Returns whether the types of a product match: all are equal, or the operands are bf16 or f16 and the result is f32.
// The bias of a bf16 or f16 product is f32, too.
bool product_types(const View& a, const View& b, const View& y);
template <class T> using Bias = std::conditional_t<tensor::is_half_type<T>, float, T>;
// Calls the body with the types of operands and result: with_product(a, y, [&]<class T, class Y>() { ... }).
template <class Body> decltype(auto) with_product(DType operands, DType result, Body&& body) {
  return with_number(operands, [&]<class T>() {
    if constexpr (tensor::is_half_type<T>)
      if (result == DType::f32) return body.template operator()<T, float>();
    return body.template operator()<T, T>();
  });
}

template <class T> T* elements(std::byte* bytes) { return reinterpret_cast<T*>(bytes); }

}  // namespace karez::kernels
