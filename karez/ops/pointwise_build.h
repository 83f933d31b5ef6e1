// Functions that add a node of a pointwise op, whose operands have equal shapes and dtypes.
// Generated from karez/ops/pointwise.cc by `./dev test --update PointwiseBuild`; do not edit.
#pragma once

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

inline ValueId neg(Builder& b, ValueId x) { return b.one("neg", {x}); }
inline ValueId exp(Builder& b, ValueId x) { return b.one("exp", {x}); }
inline ValueId log(Builder& b, ValueId x) { return b.one("log", {x}); }
inline ValueId sqrt(Builder& b, ValueId x) { return b.one("sqrt", {x}); }
inline ValueId rsqrt(Builder& b, ValueId x) { return b.one("rsqrt", {x}); }
inline ValueId tanh(Builder& b, ValueId x) { return b.one("tanh", {x}); }
inline ValueId sigmoid(Builder& b, ValueId x) { return b.one("sigmoid", {x}); }
inline ValueId relu(Builder& b, ValueId x) { return b.one("relu", {x}); }
inline ValueId gelu(Builder& b, ValueId x) { return b.one("gelu", {x}); }
inline ValueId gelu_tanh(Builder& b, ValueId x) { return b.one("gelu_tanh", {x}); }
inline ValueId silu(Builder& b, ValueId x) { return b.one("silu", {x}); }
inline ValueId erf(Builder& b, ValueId x) { return b.one("erf", {x}); }
inline ValueId abs(Builder& b, ValueId x) { return b.one("abs", {x}); }
inline ValueId sin(Builder& b, ValueId x) { return b.one("sin", {x}); }
inline ValueId cos(Builder& b, ValueId x) { return b.one("cos", {x}); }
inline ValueId stop_gradient(Builder& b, ValueId x) { return b.one("stop_gradient", {x}); }
inline ValueId add(Builder& b, ValueId x, ValueId y) { return b.one("add", {x, y}); }
inline ValueId sub(Builder& b, ValueId x, ValueId y) { return b.one("sub", {x, y}); }
inline ValueId mul(Builder& b, ValueId x, ValueId y) { return b.one("mul", {x, y}); }
inline ValueId div(Builder& b, ValueId x, ValueId y) { return b.one("div", {x, y}); }
inline ValueId pow(Builder& b, ValueId x, ValueId y) { return b.one("pow", {x, y}); }
inline ValueId max(Builder& b, ValueId x, ValueId y) { return b.one("max", {x, y}); }
inline ValueId min(Builder& b, ValueId x, ValueId y) { return b.one("min", {x, y}); }
inline ValueId eq(Builder& b, ValueId x, ValueId y) { return b.one("eq", {x, y}); }
inline ValueId ne(Builder& b, ValueId x, ValueId y) { return b.one("ne", {x, y}); }
inline ValueId lt(Builder& b, ValueId x, ValueId y) { return b.one("lt", {x, y}); }
inline ValueId le(Builder& b, ValueId x, ValueId y) { return b.one("le", {x, y}); }
inline ValueId gt(Builder& b, ValueId x, ValueId y) { return b.one("gt", {x, y}); }
inline ValueId ge(Builder& b, ValueId x, ValueId y) { return b.one("ge", {x, y}); }
inline ValueId and_(Builder& b, ValueId x, ValueId y) { return b.one("and", {x, y}); }
inline ValueId or_(Builder& b, ValueId x, ValueId y) { return b.one("or", {x, y}); }
inline ValueId not_(Builder& b, ValueId x) { return b.one("not", {x}); }
inline ValueId select(Builder& b, ValueId x, ValueId y, ValueId z) { return b.one("select", {x, y, z}); }

}  // namespace karez::ops::build
