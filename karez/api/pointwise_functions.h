// Elementwise functions of tensors.
// Generated from karez/ops/pointwise.cc by `./dev test --update PointwiseFunctions`; do not edit.
#pragma once

#include "karez/api/op_call.h"

namespace karez {

// Returns e raised to the power x.
inline Tensor exp(Term x) { return call_op("exp", {&x}); }
// Returns the natural logarithm of x: -inf for 0, and NaN for negative x.
inline Tensor log(Term x) { return call_op("log", {&x}); }
// Returns the square root of x, and NaN for negative x.
inline Tensor sqrt(Term x) { return call_op("sqrt", {&x}); }
// Returns the reciprocal of the square root of x.
inline Tensor rsqrt(Term x) { return call_op("rsqrt", {&x}); }
// Returns the hyperbolic tangent of x.
inline Tensor tanh(Term x) { return call_op("tanh", {&x}); }
// Returns the logistic sigmoid 1 / (1 + exp(-x)).
inline Tensor sigmoid(Term x) { return call_op("sigmoid", {&x}); }
// Returns GELU of x: x times the standard normal distribution function of x, computed with erf.
inline Tensor gelu(Term x) { return call_op("gelu", {&x}); }
// Returns the tanh approximation of GELU: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2 (Hendrycks and
// Gimpel, 2016).
inline Tensor gelu_tanh(Term x) { return call_op("gelu_tanh", {&x}); }
// Returns x * sigmoid(x), also known as swish.
inline Tensor silu(Term x) { return call_op("silu", {&x}); }
// Returns the error function of x.
inline Tensor erf(Term x) { return call_op("erf", {&x}); }
// Returns the absolute value of x; the gradient at 0 is 0.
inline Tensor abs(Term x) { return call_op("abs", {&x}); }
// Returns the sine of x (x in radians).
inline Tensor sin(Term x) { return call_op("sin", {&x}); }
// Returns the cosine of x (x in radians).
inline Tensor cos(Term x) { return call_op("cos", {&x}); }
// Returns x, but no gradient flows to x.
inline Tensor stop_gradient(Term x) { return call_op("stop_gradient", {&x}); }

}  // namespace karez
