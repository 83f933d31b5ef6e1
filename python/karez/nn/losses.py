"""Losses, with PyTorch's names and keywords.

Each formula is the loss of one element. By default a function returns the mean over all elements; reduction="sum"
returns their sum, and reduction="none" the losses themselves.
"""

from __future__ import annotations

import math
from typing import Callable, Optional

from .. import _core
from ..dimensions import _require_rank, _require_shape
from ..errors import ShapeError, TypeError, UserError
from ..functions import clip, exp, log, log_softmax, mean, norm, sum, unsqueeze, where
from ..half_precision import in_f32
from ..manipulation import movedim
from ..pointwise import log1p, logsigmoid, operand_of, square, tensor_of, xlogy
from ..type_aliases import Operand, Tensor
from ..user_line import _at

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "nll_loss",
    "normalize",
    "pairwise_distance",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]


def _reduced(what: str, values: Tensor, reduction: str) -> Tensor:
    if reduction not in ("mean", "sum", "none"):
        raise UserError(f"{what}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}{_at()}")
    return values if reduction == "none" else mean(values) if reduction == "mean" else sum(values)


def _require_equal_ranks(what: str, *operands: Operand) -> None:
    """Raises an error if operands have different numbers of dimensions, unless they are numbers."""
    tensors = [operand_of(operand) for operand in operands]
    if len({tensor.ndim for tensor in tensors} - {0}) > 1:
        texts = ", ".join(tensor._text() for tensor in tensors)
        raise ShapeError(f"{what}: the tensors must have the same number of dimensions, got {texts}{_at()}")


def _require_target(what: str, input: Operand, target: Tensor) -> None:
    if target.ndim:
        _require_shape(what, "the target", target, operand_of(input).shape)


@in_f32
def cross_entropy(
    input: Tensor,
    target: Operand,
    weight: Optional[Operand] = None,
    *,
    ignore_index: Optional[int] = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    row_weights: Optional[Operand] = None,
) -> Tensor:
    """-log softmax(input)[target], for input [n, c] or [n, c, ...] and target [n] or [n, ...]. A float target holds the
    probabilities of the classes.

    Targets equal to ignore_index are ignored. By default no target is ignored (PyTorch ignores -100). weight [c]
    weights the classes; row_weights [n] weights the rows.
    """
    input, target = _require_rank("cross_entropy", tensor_of(input), 1), tensor_of(target)
    _require_class_weights("cross_entropy", input, weight)
    has_class_labels = not target.dtype.is_floating_point
    if has_class_labels or target.shape != input.shape:
        _require_labels(
            "cross_entropy",
            input,
            target,
            "; float targets are class probabilities and must have the shape of the logits",
        )
    if weight is None and not label_smoothing and has_class_labels and reduction == "mean" and input.ndim >= 2:
        return _core.cross_entropy(*_rows(input, target), row_weights=row_weights, ignore_index=ignore_index)
    if row_weights is not None:
        raise UserError(
            f"cross_entropy: row_weights require class labels and reduction='mean', and neither weight nor "
            f"label_smoothing{_at()}"
        )
    at = _class_dim(input)
    logs, classes = log_softmax(input, at), input.shape[at]
    if has_class_labels:

        def losses(labels: Tensor) -> Tensor:
            return _core.reshape(_core.cross_entropy_of_rows(*_rows(input, labels)), list(target.shape))

        return _label_loss(losses, logs, target, weight, ignore_index, reduction, label_smoothing)
    probabilities = target * (1 - label_smoothing) + label_smoothing / classes
    rows = -sum(logs * probabilities * _by_class(weight, logs, at), at)
    return sum(rows) / max(1, rows.numel()) if reduction == "mean" else _reduced("cross_entropy", rows, reduction)


def _class_dim(input: Tensor) -> int:
    """The dimension of the classes of [c], [n, c] or [n, c, ...]."""
    return 0 if input.ndim == 1 else 1


def _rows(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Scores [n, c, ...] or [c] as a matrix of rows of c scores, and the target of each row."""
    if input.ndim == 2:
        return input, target
    last = movedim(input, 1, -1) if input.ndim > 2 else input
    return (_core.reshape(last, [math.prod(last.shape[:-1]), last.shape[-1]]), _core.reshape(target, [target.numel()]))


def _require_labels(what: str, input: Tensor, target: Tensor, hint: str = "") -> None:
    """Raises an error unless the target has one integer for each vector of scores."""
    at = _class_dim(input)
    expected_shape = [*input.shape[:at], *input.shape[at + 1 :]]
    if target._dtype not in ("i32", "i64") or list(target.shape) != expected_shape:
        raise TypeError(
            f"{what}: labels must be i32 or i64 {expected_shape} for logits {input._text()}, got "
            f"{target._text()}{hint * target.dtype.is_floating_point}{_at()}"
        )


def _require_class_weights(what: str, input: Tensor, weight: Optional[Operand]) -> None:
    if weight is not None:
        _require_shape(what, "weight", operand_of(weight), (input.shape[_class_dim(input)],))


def _by_class(weight: Optional[Operand], logs: Tensor, at: int) -> Operand:
    return 1.0 if weight is None else _core.reshape(weight, [-1] + [1] * (logs.ndim - 1 - at))


def _label_loss(
    losses: Callable[[Tensor], Tensor],
    logs: Tensor,
    target: Tensor,
    weight: Optional[Operand],
    ignore_index: Optional[int],
    reduction: str,
    smoothing: float,
) -> Tensor:
    """The weighted losses of the labels: losses(labels) computes them, and logs are the logarithms of the
    probabilities, which only label smoothing needs."""
    at = 0 if logs.ndim == 1 else 1
    counts = (
        _core.cast(_core.ne(target, ignore_index), logs.dtype)
        if ignore_index is not None
        else _core.full(list(target.shape), 1, dtype=logs.dtype)
    )
    place = (
        target
        if ignore_index is None
        else where(_core.eq(target, ignore_index), _core.full([], 0, dtype=target.dtype), target)
    )
    weights = counts if weight is None else counts * _core.reshape(_core.take_rows(weight, place), list(target.shape))
    rows = where(counts > 0, losses(place), 0.0) * weights
    if smoothing:
        spread = -sum(logs * _by_class(weight, logs, at), at)
        rows = rows * (1 - smoothing) + where(counts > 0, spread, 0.0) * (smoothing / logs.shape[at])
    return sum(rows) / sum(weights) if reduction == "mean" else _reduced("cross_entropy", rows, reduction)


@in_f32
def nll_loss(
    input: Tensor,
    target: Operand,
    weight: Optional[Operand] = None,
    *,
    ignore_index: Optional[int] = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target], for log-probabilities input [n, c] or [n, c, ...]."""
    input, target = _require_rank("nll_loss", tensor_of(input), 1), tensor_of(target)
    _require_class_weights("nll_loss", input, weight)
    _require_labels("nll_loss", input, target)
    at = _class_dim(input)

    def losses(labels: Tensor) -> Tensor:
        return -_core.reshape(_core.take_along_dim(input, unsqueeze(labels, at), at), list(target.shape))

    return _label_loss(losses, input, target, weight, ignore_index, reduction, 0.0)


@in_f32
def mse_loss(input: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """(input - target)^2."""
    return _reduced("mse_loss", square(input - target), reduction)


@in_f32
def l1_loss(input: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """|input - target|."""
    return _reduced("l1_loss", _core.abs(input - target), reduction)


@in_f32
def smooth_l1_loss(input: Tensor, target: Operand, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """difference^2 / (2 * beta) if |difference| is below beta, otherwise |difference| - beta / 2."""
    distance = _core.abs(input - target)
    return _reduced(
        "smooth_l1_loss",
        distance if beta == 0 else where(distance < beta, square(distance) * (0.5 / beta), distance - 0.5 * beta),
        reduction,
    )


@in_f32
def huber_loss(input: Tensor, target: Operand, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """difference^2 / 2 if |difference| is below delta, otherwise delta * (|difference| - delta / 2)."""
    distance = _core.abs(input - target)
    return _reduced(
        "huber_loss", where(distance <= delta, square(distance) * 0.5, (distance - 0.5 * delta) * delta), reduction
    )


@in_f32
def binary_cross_entropy(
    input: Tensor, target: Operand, weight: Optional[Operand] = None, reduction: str = "mean"
) -> Tensor:
    """-(target * log(input) + (1 - target) * log(1 - input)), where the logarithms are at least -100."""
    target = tensor_of(target)
    _require_target("binary_cross_entropy", input, target)
    rows = (target - 1) * clip(log1p(-input), -100.0) - target * clip(log(input), -100.0)
    return _reduced("binary_cross_entropy", rows if weight is None else rows * weight, reduction)


@in_f32
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Operand,
    weight: Optional[Operand] = None,
    reduction: str = "mean",
    pos_weight: Optional[Operand] = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(input); pos_weight weights the positive term."""
    target = tensor_of(target)
    _require_target("binary_cross_entropy_with_logits", input, target)
    scale = 1.0 if pos_weight is None else (tensor_of(pos_weight) - 1) * target + 1
    rows = (1 - target) * input - logsigmoid(input) * scale
    return _reduced("binary_cross_entropy_with_logits", rows if weight is None else rows * weight, reduction)


@in_f32
def kl_div(input: Tensor, target: Operand, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - input), for an input of log-probabilities. With log_target=True the target is also a
    log-probability. reduction="batchmean" divides the sum by the number of rows."""
    target = tensor_of(target)
    rows = exp(target) * (target - input) if log_target else xlogy(target, target) - target * input
    if reduction == "batchmean":
        return sum(rows) / max(1, rows.shape[0] if rows.ndim else 1)
    return _reduced("kl_div", rows, reduction)


@in_f32
def poisson_nll_loss(
    input: Tensor,
    target: Operand,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) - target * input, or input - target * log(input + eps) if log_input is false. full=True adds
    Stirling's approximation of log(target!) for targets above 1."""
    target = tensor_of(target)
    rows = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        safe = where(target > 1, target, 1.0)
        rows = rows + where(target > 1, safe * log(safe) - safe + 0.5 * log(2 * math.pi * safe), 0.0)
    return _reduced("poisson_nll_loss", rows, reduction)


@in_f32
def gaussian_nll_loss(
    input: Tensor, target: Operand, var: Operand, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log(var) + (input - target)^2 / var) / 2, where var is raised to eps if it is smaller. full=True adds
    log(2 * pi) / 2."""
    input = operand_of(input)
    var = tensor_of(var)
    if var.ndim == input.ndim - 1 and tuple(var.shape) == tuple(input.shape[:-1]):
        var = unsqueeze(var, -1)
    _require_equal_ranks("gaussian_nll_loss", input, var)
    safe = var + _core.stop_gradient(_core.maximum(var, eps) - var)
    rows = (log(safe) + square(input - target) / safe) * 0.5
    return _reduced("gaussian_nll_loss", rows + 0.5 * math.log(2 * math.pi) if full else rows, reduction)


@in_f32
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Operand, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin)."""
    _require_equal_ranks("margin_ranking_loss", input1, input2, target)
    return _reduced("margin_ranking_loss", clip((input2 - input1) * target + margin, 0.0), reduction)


@in_f32
def hinge_embedding_loss(input: Tensor, target: Operand, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """input if the target is 1; max(0, margin - input) if it is -1."""
    positive_loss, negative_loss = (
        where(_core.ne(target, -1), input, 0.0),
        where(_core.ne(target, 1), clip(margin - input, 0.0), 0.0),
    )
    return _reduced("hinge_embedding_loss", positive_loss + negative_loss, reduction)


@in_f32
def soft_margin_loss(input: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input))."""
    return _reduced("soft_margin_loss", -logsigmoid(input * target), reduction)


@in_f32
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """sum(x1 * x2) / (|x1| * |x2|) along a dimension, where a norm below eps is replaced with eps."""
    shape = list((x1 * x2).shape)
    x1, x2 = _core.broadcast_to(x1, shape), _core.broadcast_to(x2, shape)
    norms = [_core.maximum(norm(x, 2.0, dim, True), eps) for x in (x1, x2)]
    return sum((x1 / norms[0]) * (x2 / norms[1]), dim)


@in_f32
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Operand, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cosine_similarity if the target is 1; max(0, cosine_similarity - margin) if it is -1."""
    for input in (input1, input2):
        _require_rank("cosine_embedding_loss", operand_of(input), 1)
    eps = 1e-12
    cosine = sum(input1 * input2, -1) / _core.sqrt((sum(square(input1), -1) + eps) * (sum(square(input2), -1) + eps))
    _require_equal_ranks("cosine_embedding_loss", cosine, target)
    positive_loss = where(_core.eq(target, 1), 1 - cosine, 0.0)
    negative_loss = where(_core.eq(target, -1), clip(cosine - margin, 0.0), 0.0)
    return _reduced("cosine_embedding_loss", positive_loss + negative_loss, reduction)


@in_f32
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return norm(x1 - x2 + eps, p, -1, keepdim)


@in_f32
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin). With swap=True, |positive - negative| replaces
    |anchor - negative| if it is smaller."""
    _require_equal_ranks("triplet_margin_loss", anchor, positive, negative)
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    far = _core.minimum(far, pairwise_distance(positive, negative, p, eps)) if swap else far
    return _reduced("triplet_margin_loss", clip(near - far + margin, 0.0), reduction)


@in_f32
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """input divided by its p-norm along a dimension; a norm below eps is replaced with eps."""
    return input / _core.maximum(norm(input, p, dim, True), eps)
