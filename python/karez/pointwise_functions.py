"""Pointwise functions, each defined by a row of karez/ops/pointwise.cc.

Generated from karez/ops/pointwise.cc by `./dev test --update test_pointwise_functions`; do not edit."""

from ._core import abs, cos, exp, gelu_tanh, log, sigmoid, silu, sin, sqrt, stop_gradient, tanh

__all__ = ["abs", "cos", "exp", "gelu_tanh", "log", "sigmoid", "silu", "sin", "sqrt", "stop_gradient", "tanh"]
