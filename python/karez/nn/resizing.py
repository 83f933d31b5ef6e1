"""Interpolation: functions that resize the last dimensions of [n, c, ...]."""

from __future__ import annotations

from typing import Any, Optional

import numpy

from .. import _core
from ..dimensions import _per_dimension, _require_rank
from ..errors import ShapeError, UserError
from ..half_precision import in_f32
from ..manipulation import index_select, movedim
from ..pointwise import operand_of
from ..products import matmul
from ..type_aliases import Tensor
from ..user_line import _at

__all__ = ["interpolate"]


@in_f32
def resized(input: Tensor, new_sizes: list[int], weights: Any) -> Tensor:
    """Multiplies each of the last dimensions by a matrix [size, new size]. weights(size, new size, i) returns the
    matrix of the i-th of these dimensions."""
    for i, count in enumerate(new_sizes):
        dim = input.ndim - len(new_sizes) + i
        size = input.shape[dim]
        if count < 1:
            raise ShapeError(
                f"the size along dimension {dim} of {input._text()} must be at least 1, got {count}{_at()}"
            )
        matrix = weights(size, count, i)
        if not numpy.array_equal(matrix, numpy.eye(size, count)):
            input = movedim(matmul(movedim(input, dim, -1), matrix.astype(input.dtype.name)), -1, dim)
    return _core.copied(input)


def mean_weights(size: int, count: int, _: int) -> Any:
    out = numpy.zeros((size, count))
    for i in range(count):
        first, last = i * size // count, -(-(i + 1) * size // count)
        out[first:last, i] = 1 / (last - first)
    return out


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None,
    antialias: bool = False,
) -> Tensor:
    """Resizes the last dimensions of [n, c, ...] to size or by scale_factor.

    mode: "nearest" or "nearest-exact" for the nearest element; "linear", "bilinear", "trilinear" or "bicubic" for
    interpolation (linear for one, bilinear for two, trilinear for three dimensions); "area" for means.
    """
    input = operand_of(input)
    if (size is None) == (scale_factor is None):
        raise UserError(f"interpolate: exactly one of size and scale_factor must be given{_at()}")
    if mode not in ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area") or antialias:
        raise UserError(
            "interpolate: mode must be nearest, nearest-exact, linear, bilinear, trilinear, bicubic or area, and "
            f"antialias must be false, got mode={mode!r} and antialias={antialias}{_at()}"
        )
    rank = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}.get(mode)
    _require_rank(f"interpolate with mode={mode!r}", input, rank or 3, rank)
    old_sizes = input.shape[2:]
    spatial = len(old_sizes)
    factors: list[Any] = [None] * spatial
    if size is None:
        factors = [scale_factor] if isinstance(scale_factor, (int, float)) else list(scale_factor)
        factors = _per_dimension(
            "interpolate", "scale_factor", factors, spatial, isinstance(scale_factor, (int, float))
        )
        new_sizes = [int(numpy.floor(item * factor)) for item, factor in zip(old_sizes, factors)]
        factors = [None] * spatial if recompute_scale_factor else factors
    else:
        new_sizes = _per_dimension("interpolate", "size", size, spatial, False)
    if mode == "area":
        return resized(input, new_sizes, mean_weights)
    if mode.startswith("nearest"):
        for i, count in enumerate(new_sizes):
            shift = 0.5 if mode.endswith("exact") else 0.0
            step = numpy.float32(1 / factors[i] if factors[i] else old_sizes[i] / count)
            input = index_select(
                input, 2 + i, numpy.minimum(((numpy.arange(count) + shift) * step).astype(int), old_sizes[i] - 1)
            )
        return input
    return resized(
        input,
        new_sizes,
        lambda size, count, i: _linear_weights(
            size, count, factors[i], bool(align_corners), 4 if mode == "bicubic" else 2
        ),
    )


def _cubic_near(x: Any) -> Any:
    return (1.25 * x - 2.25) * x * x + 1


def _cubic_far(x: Any) -> Any:
    return ((-0.75 * x + 3.75) * x - 6) * x + 3


def _linear_weights(size: int, count: int, factor: Any, align_corners: bool, taps: int) -> Any:
    """The weights of neighbouring elements: two for linear, four for Keys' cubic interpolation with a = -0.75."""
    if align_corners:
        at = numpy.arange(count) * ((size - 1) / (count - 1) if count > 1 else 0.0)
    else:
        at = (numpy.arange(count) + 0.5) * (1 / factor if factor else size / count) - 0.5
        at = numpy.maximum(at, 0) if taps == 2 else at
    lower = numpy.floor(at).astype(int)
    t, out = at - lower, numpy.zeros((size, count))
    weights = [1 - t, t] if taps == 2 else [_cubic_far(t + 1), _cubic_near(t), _cubic_near(1 - t), _cubic_far(2 - t)]
    for k, weight in enumerate(weights):
        numpy.add.at(out, (numpy.clip(lower + k - (taps // 2 - 1), 0, size - 1), numpy.arange(count)), weight)
    return out
