"""Norm layers. Their parameters have PyTorch's names, shapes and initial values."""

from __future__ import annotations

from typing import Any, Optional

from .. import functions
from .._core import batch_parts
from ..dimensions import _require_rank
from ..dtypes import int64
from ..errors import UserError
from ..pointwise import operand_of
from ..type_aliases import Operand, Tensor
from ..writes import update
from . import functional as F, init
from .layer import Layer, require_positive
from .parameter import Buffer, Parameter


class LayerNorm(Layer):
    """Layer norm over the last dimensions, whose sizes are normalized_shape. Weight (initially 1) and bias (initially
    0) have this shape."""

    fixed = frozenset({"elementwise_affine"})

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: Any = True
    ) -> None:
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Parameter(self.normalized_shape, init.ones()) if elementwise_affine else None
        self.bias = Parameter(self.normalized_shape, init.zeros()) if elementwise_affine and bias else None

    def forward(self, x: Operand) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Layer):
    """Divides x by its root mean square over the last dimensions, whose sizes are normalized_shape, and multiplies the
    result by the weight, which is initially 1. The default of eps is that of F.rms_norm."""

    fixed = frozenset({"elementwise_affine"})

    def __init__(self, normalized_shape: Any, eps: Optional[float] = None, elementwise_affine: bool = True) -> None:
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Parameter(self.normalized_shape, init.ones()) if elementwise_affine else None

    def forward(self, x: Operand) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class BatchNorm2d(Layer):
    """Normalises each channel of x [n, c, ...]. In training, the layer uses the statistics of the entire batch and
    updates the running statistics with them; otherwise it uses the running statistics.

    Each micro-batch is normalised with its own statistics, in order, as when PyTorch accumulates gradients.
    """

    fixed = frozenset({"num_features", "affine"})
    absent = frozenset({"track_running_stats"})

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True) -> None:
        require_positive(type(self).__name__, num_features=num_features)
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.weight = Parameter((num_features,), init.ones()) if affine else None
        self.bias = Parameter((num_features,), init.zeros()) if affine else None
        self.running_mean = Buffer((num_features,), init.zeros())
        self.running_var = Buffer((num_features,), init.ones())
        self.num_batches_tracked = Buffer((), init.zeros(), dtype=int64)

    def forward(self, x: Operand) -> Tensor:
        x = _require_rank(type(self).__name__, operand_of(x), 2)
        if self.training:
            update(self.num_batches_tracked, self.num_batches_tracked + batch_parts(x))
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps
        )


class BatchNorm1d(BatchNorm2d):
    """Same as BatchNorm2d."""


class BatchNorm3d(BatchNorm2d):
    """Same as BatchNorm2d."""


class GroupNorm(Layer):
    """Normalises groups of channels of x [n, c, ...]. Weight (initially 1) and bias (initially 0) have shape [c]."""

    fixed = frozenset({"num_channels", "affine"})

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
        require_positive("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise UserError(f"GroupNorm: num_groups={num_groups} must divide num_channels={num_channels}")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight = Parameter((num_channels,), init.ones()) if affine else None
        self.bias = Parameter((num_channels,), init.zeros()) if affine else None

    def forward(self, x: Operand) -> Tensor:
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class InstanceNorm2d(GroupNorm):
    """Normalises each channel of each example of x [n, c, ...]. momentum has no effect."""

    fixed = frozenset({"num_features", "num_groups", "num_channels", "affine"})
    absent = frozenset({"track_running_stats"})

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
    ) -> None:
        if track_running_stats:
            raise UserError(f"{type(self).__name__}: track_running_stats=True is not supported")
        super().__init__(num_features, num_features, eps, affine)
        self.num_features, self.momentum = num_features, momentum

    def forward(self, x: Operand) -> Tensor:
        return super().forward(_require_rank(type(self).__name__, operand_of(x), 3))


class InstanceNorm1d(InstanceNorm2d):
    """Same as InstanceNorm2d; x may also be [c, l]."""

    def forward(self, x: Operand) -> Tensor:
        x = operand_of(x)
        return super().forward(x) if x.ndim != 2 else functions.squeeze(super().forward(functions.unsqueeze(x, 0)), 0)
