"""Products of vectors and matrices, composed of ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional, Union

from . import _core
from .devices import check_device
from .dimensions import _existing_dim, _require_rank
from .dtypes import bool_, dtype as DType, dtype_of, float32, int64
from .errors import ShapeError
from .functions import permute, reshape, sum, unsqueeze
from .manipulation import diagonal
from .pointwise import operand_of, tensor_of
from .type_aliases import Operand, Tensor
from .user_line import _at


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """[m, k] and [k, n] -> [m, n]."""
    return _core.matmul(_of_rank("mm", input, 2), _of_rank("mm", mat2, 2))


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """[b, m, k] and [b, k, n] -> [b, m, n]."""
    return _core.matmul(_of_rank("bmm", input, 3), _of_rank("bmm", mat2, 3))


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """[m, k] and [k] -> [m]."""
    return matmul(_of_rank("mv", input, 2), _of_rank("mv", vec, 1))


def dot(input: Tensor, other: Tensor) -> Tensor:
    """[k] and [k] -> a tensor without dimensions."""
    return _sum_of_products(_core.times(_of_rank("dot", input, 1), _of_rank("dot", other, 1)))


def _sum_of_products(terms: Tensor, dim: Optional[int] = None) -> Tensor:
    """The sum of products, in the dtype of the operands."""
    return _core.cast(sum(terms, dim), terms.dtype)


def matmul(input: Operand, other: Operand) -> Tensor:
    """[..., m, k] and [..., k, n] -> [..., m, n]. Leading dimensions broadcast. A vector is a row on the left, or a
    column on the right."""
    a, b = tensor_of(input), tensor_of(other)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul: operands must have at least one dimension, got {a._text()} and {b._text()}{_at()}")
    if a.ndim == b.ndim > 1 and a.shape[:-2] == b.shape[:-2]:
        return _core.matmul(a, b)
    row, column = a.ndim == 1, b.ndim == 1
    a, b = unsqueeze(a, 0) if row else a, unsqueeze(b, 1) if column else b
    if a.ndim > 2 and b.ndim == 2:
        out = reshape(_core.matmul(reshape(a, [math.prod(a.shape[:-1]), a.shape[-1]]), b), [*a.shape[:-1], b.shape[-1]])
    else:
        lead = _broadcast(a.shape[:-2], b.shape[:-2])
        out = _core.matmul(_core.broadcast_to(a, [*lead, *a.shape[-2:]]), _core.broadcast_to(b, [*lead, *b.shape[-2:]]))
    shape = list(out.shape)
    if column:
        del shape[-1]
    if row:
        del shape[-1 if column else -2]
    return out if len(shape) == out.ndim else reshape(out, shape)


def _broadcast(a: Sequence[int], b: Sequence[int]) -> list[int]:
    a, b = [1] * (len(b) - len(a)) + list(a), [1] * (len(a) - len(b)) + list(b)
    if any(x != y and 1 not in (x, y) for x, y in zip(a, b)):
        raise ShapeError(f"matmul: leading dimensions {a} and {b} do not broadcast{_at()}")
    return [y if x == 1 else x for x, y in zip(a, b)]


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """[m] and [n] -> [m, n]."""
    return _core.times(unsqueeze(_of_rank("outer", input, 1), 1), unsqueeze(_of_rank("outer", vec2, 1), 0))


def addmm(input: Operand, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
    return _scaled_sum("addmm", input, mm(mat1, mat2), beta, alpha)


def addmv(input: Operand, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    return _scaled_sum("addmv", input, mv(mat, vec), beta, alpha)


def addr(input: Operand, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
    return _scaled_sum("addr", input, outer(vec1, vec2), beta, alpha)


def baddbmm(input: Operand, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2)."""
    return _scaled_sum("baddbmm", input, bmm(batch1, batch2), beta, alpha)


def addbmm(input: Operand, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (the sum of batch1 @ batch2 over the batch)."""
    return _scaled_sum("addbmm", input, _sum_of_products(bmm(batch1, batch2), 0), beta, alpha)


def _scaled_sum(function: str, input: Operand, product: Tensor, beta: float, alpha: float) -> Tensor:
    if not product.dtype.is_floating_point:  # integer tensors take integer factors, as in PyTorch
        kind = bool if product.dtype is bool_ else int
        alpha, beta = kind(alpha), kind(beta)
    product = product if alpha == 1 else product * alpha
    if beta == 0:  # NaN in the input is ignored
        return product
    out = _core.plus(_core.times(input, beta), product)
    if out.shape != product.shape:
        raise ShapeError(
            f"{function}: the input {tensor_of(input)._text()} does not broadcast to the product "
            f"{product._text()}{_at()}"
        )
    return out


def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of [m, n]."""
    return sum(diagonal(_of_rank("trace", input, 2)))


def eye(n: int, m: Optional[int] = None, *, dtype: Optional[DType] = float32, device: Any = None) -> Tensor:
    """[n, m] with 1 on the diagonal, 0 elsewhere."""
    check_device("eye", device)
    m = n if m is None else m
    return _core.cast(
        _core.eq(_core.iota([n, 1], 0, int64), _core.iota([1, m], 1, int64)), dtype_of("eye", dtype or float32)
    )


def tensordot(a: Tensor, b: Tensor, dims: Union[int, Sequence[Sequence[int]]] = 2) -> Tensor:
    """The sum of products over the last `dims` dimensions of a and the first `dims` dimensions of b. If dims is a pair
    of lists, they name the dimensions of a and of b."""
    a, b = operand_of(a), operand_of(b)
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot: dims must be from 0 to {min(a.ndim, b.ndim)} for {a._text()} and {b._text()}, got "
                f"{dims}{_at()}"
            )
        dims = [range(a.ndim - dims, a.ndim), range(dims)]
    if len(dims) != 2:
        raise ShapeError(f"tensordot: dims must be a number or two lists of dimensions, got {dims}{_at()}")
    left, right = (
        [_existing_dim(x, d) for d in ([listed] if isinstance(listed, int) else listed)]
        for x, listed in zip((a, b), dims)
    )
    if [a.shape[d] for d in left] != [b.shape[d] for d in right]:
        raise ShapeError(
            f"tensordot: the sizes of the summed dimensions differ: {[a.shape[d] for d in left]} in {a._text()} and "
            f"{[b.shape[d] for d in right]} in {b._text()}{_at()}"
        )
    rows, columns = [d for d in range(a.ndim) if d not in left], [d for d in range(b.ndim) if d not in right]
    inner, out = math.prod(a.shape[d] for d in left), [[a.shape[d] for d in rows], [b.shape[d] for d in columns]]
    left_matrix = reshape(permute(a, rows + left), [math.prod(out[0]), inner])
    return reshape(
        _core.matmul(left_matrix, reshape(permute(b, right + columns), [inner, math.prod(out[1])])), out[0] + out[1]
    )


def _of_rank(function: str, input: Tensor, rank: int) -> Tensor:
    return _require_rank(function, tensor_of(input), rank, rank)


__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "dot",
    "eye",
    "matmul",
    "mm",
    "mv",
    "outer",
    "tensordot",
    "trace",
]
