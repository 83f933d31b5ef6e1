"""Pointwise functions that follow from one row of karez/ops/pointwise.cc each.

`./dev test --update test_pointwise_functions` writes this file."""

from ._core import abs, cos, exp, gelu_tanh, log, sigmoid, silu, sin, sqrt, stop_gradient, tanh

__all__ = ["abs", "cos", "exp", "gelu_tanh", "log", "sigmoid", "silu", "sin", "sqrt", "stop_gradient", "tanh"]
