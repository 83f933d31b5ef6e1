"""Reductions composed of ops."""

from __future__ import annotations

import builtins
from typing import Any, Optional

from . import _core
from .dimensions import _normalised_dim, _require_rank
from .dtypes import int64
from .functions import amax, mean, norm, std, sum, unsqueeze, var, where
from .half_precision import in_f32
from .manipulation import atleast_2d, movedim, narrow
from .pointwise import floating, operand_of, tensor_of
from .type_aliases import Dims, Operand, Tensor


@in_f32
def logsumexp(input: Operand, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))), without overflow of intermediate values."""
    x = floating(input)
    if 0 in x.shape:  # an empty input has no largest element
        return _core.log(sum(_core.exp(x), dim, keepdim))
    largest = _core.stop_gradient(amax(x, dim, True))
    largest = where(_core.lt(_core.abs(largest), float("inf")), largest, 0.0)
    total = _core.log(sum(_core.exp(x - largest), dim, True)) + largest
    return total if keepdim else _core.reshape(total, list(_core.sum(x, dim, False).shape))


def prod(input: Operand, dim: Optional[int] = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product of all elements, or of the elements along a dimension."""
    if dtype is not None:
        return _core.cast(prod(_core.cast(input, dtype), dim, keepdim), dtype)
    x = tensor_of(input)
    return _prod(_core.cast(x, int64) if x._dtype in ("i32", "bool") else x, dim, keepdim)


@in_f32
def _prod(x: Tensor, dim: Optional[int], keepdim: bool) -> Tensor:
    if dim is None:
        return _prod(_core.reshape(x, [x.numel()]), 0, False) if x.ndim != 1 else _prod(x, 0, False)
    at = _normalised_dim(x, dim)
    rows = movedim(x, at, 0) if x.ndim else _core.reshape(x, [1])
    if rows.shape[0] == 0:
        out = _core.full(list(rows.shape[1:]), 1, dtype=x.dtype)
    else:
        while rows.shape[0] > 1:  # a tree of pairwise products, whose gradient needs no division
            half = rows.shape[0] // 2
            products = narrow(rows, 0, 0, half) * narrow(rows, 0, half, half)
            rows = products if rows.shape[0] == 2 * half else _core.cat([products, narrow(rows, 0, 2 * half, 1)], 0)
        out = _core.copied(_core.reshape(rows, list(rows.shape[1:])))
    return unsqueeze(out, at) if keepdim and x.ndim else out


def nansum(input: Operand, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The sum of the elements that are not NaN."""
    x = tensor_of(input)
    return sum(where(_core.ne(x, x), _core.full([], 0, dtype=x.dtype), x), dim, keepdim)


@in_f32
def nanmean(input: Operand, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The mean of the elements that are not NaN."""
    x = tensor_of(input)
    return nansum(x, dim, keepdim) / sum(_core.cast(_core.eq(x, x), x.dtype), dim, keepdim)


def count_nonzero(input: Operand, dim: Dims = None) -> Tensor:
    """The number of nonzero elements."""
    return sum(_core.cast(_core.ne(input, 0), int64), dim)


@in_f32
def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: Optional[bool] = None,
    keepdim: bool = False,
    *,
    correction: Optional[int] = None,
) -> tuple[Tensor, Tensor]:
    """The variance (see var) and the mean."""
    axes = None if isinstance(dim, bool) else dim
    return var(input, dim, unbiased, keepdim, correction=correction), mean(input, axes, keepdim)


@in_f32
def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: Optional[bool] = None,
    keepdim: bool = False,
    *,
    correction: Optional[int] = None,
) -> tuple[Tensor, Tensor]:
    """The standard deviation (see std) and the mean."""
    axes = None if isinstance(dim, bool) else dim
    return std(input, dim, unbiased, keepdim, correction=correction), mean(input, axes, keepdim)


def aminmax(input: Tensor, *, dim: Optional[int] = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the largest element."""
    return _core.amin(input, dim, keepdim), _core.amax(input, dim, keepdim)


@in_f32
def dist(input: Tensor, other: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm of the difference of two tensors."""
    return norm(_core.minus(input, other), p)


@in_f32
def cov(input: Tensor, *, correction: int = 1) -> Tensor:
    """The covariance matrix of variables (rows) over observations (columns)."""
    x = floating(atleast_2d(_require_rank("cov", operand_of(input), 0, 2)))
    x = x - mean(x, 1, True)
    covariance = _core.matmul(x, _core.permute(x, [1, 0])) / builtins.max(0, x.shape[1] - correction)
    return _core.reshape(covariance, []) if covariance.numel() == 1 else covariance


__all__ = ["aminmax", "count_nonzero", "cov", "dist", "logsumexp", "nanmean", "nansum", "prod", "std_mean", "var_mean"]
