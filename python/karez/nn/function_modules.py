"""Layers without weights, each made from a function."""

from __future__ import annotations

import inspect
from typing import Any, Callable

import numpy

from .. import functions, manipulation
from ..pointwise import tensor_of
from . import functional as F
from .layer import Layer


def _layer(name: str, function: Callable[..., Any], doc: str, inputs: int = 1, **settings: Any) -> Any:
    """Makes the class of a module that calls a function with the module's inputs. The constructor takes the other
    parameters of the function and stores them as attributes of the same names; each call reads these attributes."""
    parameters = list(inspect.signature(function).parameters.values())[inputs:]
    names = settings or {item.name: item.default for item in parameters}

    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        values = dict(zip(names, args)) | keywords
        unknown = [setting for setting in values if setting not in names]
        missing = [
            setting
            for setting, default in names.items()
            if default is inspect.Parameter.empty and setting not in values
        ]
        if len(args) > len(names) or unknown or missing:
            message = (
                f"got an unexpected argument {unknown[0]!r}"
                if unknown
                else f"is missing the argument {missing[0]!r}"
                if missing
                else f"takes {len(names)} arguments but {len(args)} were given"
            )
            raise TypeError(f"{name} {message}; its arguments are ({', '.join(names)})")
        for setting, default in names.items():
            setattr(self, setting, values.get(setting, default))
        if "stride" in names and self.stride is None:
            self.stride = self.kernel_size  # as in PyTorch: a later change of kernel_size does not change it

    def forward(self: Any, *inputs: Any) -> Any:
        return function(*inputs, **{setting: getattr(self, setting) for setting in names})

    def extra_repr(self: Any) -> str:
        return ", ".join(
            f"{setting}={getattr(self, setting)!r}" for setting in names if setting != "inplace" or self.inplace
        )

    methods = {"__init__": __init__, "forward": forward, "extra_repr": extra_repr}
    return type(
        name, (Layer,), {**methods, "_forward_attributes": frozenset(names), "__doc__": doc, "__module__": __name__}
    )


GELU = _layer("GELU", F.gelu, 'F.gelu; approximate="tanh" uses the tanh approximation.')
ReLU = _layer("ReLU", F.relu, "max(x, 0).")
Tanh = _layer("Tanh", lambda x: F.tanh(x), "The hyperbolic tangent.")
Sigmoid = _layer("Sigmoid", lambda x: F.sigmoid(x), "1 / (1 + exp(-x)).")
SiLU = _layer("SiLU", F.silu, "x times sigmoid(x).")
Identity = _layer("Identity", lambda x: tensor_of(x) if isinstance(x, numpy.ndarray) else x, "x itself.")
Softmax = _layer("Softmax", lambda x, dim=None: F.softmax(x, dim), "The softmax along a dimension.")
LogSoftmax = _layer(
    "LogSoftmax", lambda x, dim=None: F.log_softmax(x, dim), "The logarithm of softmax along a dimension."
)
Softmin = _layer("Softmin", F.softmin, "softmax of -x.")
LeakyReLU = _layer("LeakyReLU", F.leaky_relu, "x if x > 0, otherwise negative_slope * x.")
ELU = _layer("ELU", F.elu, "x if x > 0, otherwise alpha * (exp(x) - 1).")
CELU = _layer("CELU", F.celu, "x if x > 0, otherwise alpha * (exp(x / alpha) - 1).")
SELU = _layer("SELU", F.selu, "scale * elu(x, alpha), with the constants of Klambauer et al., 2017.")
ReLU6 = _layer("ReLU6", F.relu6, "x limited to the range 0 to 6.")
Hardtanh = _layer("Hardtanh", F.hardtanh, "x limited to the bounds.")
Hardsigmoid = _layer("Hardsigmoid", F.hardsigmoid, "x / 6 + 1 / 2, limited to the range 0 to 1.")
Hardswish = _layer("Hardswish", F.hardswish, "x * hardsigmoid(x).")
Hardshrink = _layer("Hardshrink", F.hardshrink, "x if |x| is above lambd, otherwise 0.")
Softshrink = _layer("Softshrink", F.softshrink, "x moved toward 0 by lambd; 0 if |x| is at most lambd.")
Softplus = _layer("Softplus", F.softplus, "log(1 + exp(beta * x)) / beta.")
Softsign = _layer("Softsign", F.softsign, "x / (1 + |x|).")
LogSigmoid = _layer("LogSigmoid", F.logsigmoid, "log(sigmoid(x)).")
Mish = _layer("Mish", F.mish, "x * tanh(softplus(x)).")
Tanhshrink = _layer("Tanhshrink", F.tanhshrink, "x - tanh(x).")
Threshold = _layer("Threshold", F.threshold, "x if it is above the threshold, otherwise the value.")
GLU = _layer("GLU", F.glu, "The first half of the input times the sigmoid of the second half.")

Flatten = _layer(
    "Flatten",
    lambda x, start_dim=1, end_dim=-1: functions.flatten(x, start_dim, end_dim),
    "Merges the dimensions from start_dim to end_dim.",
)
Unflatten = _layer(
    "Unflatten",
    lambda x, dim, unflattened_size: manipulation.unflatten(x, dim, unflattened_size),
    "Splits a dimension into several.",
)
_windows: dict[str, Any] = {
    "kernel_size": inspect.Parameter.empty,
    "stride": None,
    "padding": 0,
    "dilation": 1,
    "return_indices": False,
    "ceil_mode": False,
}
MaxPool1d = _layer("MaxPool1d", F.max_pool1d, "The maximum of each window of [n, c, l].", **_windows)
MaxPool2d = _layer("MaxPool2d", F.max_pool2d, "The maximum of each window of [n, c, h, w].", **_windows)
AvgPool1d = _layer("AvgPool1d", F.avg_pool1d, "The mean of each window of [n, c, l]; padding counts as zeros.")
AvgPool2d = _layer("AvgPool2d", F.avg_pool2d, "The mean of each window of [n, c, h, w]; padding counts as zeros.")
AdaptiveAvgPool1d = _layer("AdaptiveAvgPool1d", F.adaptive_avg_pool1d, "The means of output_size windows of [n, c, l].")
AdaptiveAvgPool2d = _layer(
    "AdaptiveAvgPool2d", F.adaptive_avg_pool2d, "The means of output_size windows of [n, c, h, w] along each dimension."
)
Upsample = _layer("Upsample", F.interpolate, "Resizes to size or by scale_factor; the default is the nearest element.")
ConstantPad2d = _layer(
    "ConstantPad2d",
    lambda x, padding, value: _pad(x, padding, value),
    "Pads all sides with a value: a number, or (left, right, top, bottom).",
)
ZeroPad2d = _layer("ZeroPad2d", lambda x, padding: _pad(x, padding, 0.0), "Pads all sides with zeros.")
CosineSimilarity = _layer(
    "CosineSimilarity", F.cosine_similarity, "The cosine similarity of two inputs along a dimension.", 2
)
PairwiseDistance = _layer(
    "PairwiseDistance", F.pairwise_distance, "The p-norm of a difference along the last dimension.", 2
)
ReLU6.absent, ZeroPad2d.absent = frozenset({"min_val", "max_val"}), frozenset({"value"})
PairwiseDistance.norm = property(
    lambda self: self.p, lambda self, value: setattr(self, "p", value), doc="PyTorch's name for the attribute p."
)


def _pad(x: Any, padding: Any, value: float) -> Any:
    return F.pad(x, [padding] * 4 if isinstance(padding, int) else list(padding), value=value)


CrossEntropyLoss = _layer(
    "CrossEntropyLoss",
    F.cross_entropy,
    "Computes F.cross_entropy.",
    weight=None,
    ignore_index=None,
    reduction="mean",
    label_smoothing=0.0,
)
NLLLoss = _layer("NLLLoss", F.nll_loss, "Computes F.nll_loss.", weight=None, ignore_index=None, reduction="mean")
MSELoss = _layer("MSELoss", F.mse_loss, "Computes F.mse_loss.", 2)
L1Loss = _layer("L1Loss", F.l1_loss, "Computes F.l1_loss.", 2)
SmoothL1Loss = _layer("SmoothL1Loss", F.smooth_l1_loss, "Computes F.smooth_l1_loss.", 2)
HuberLoss = _layer("HuberLoss", F.huber_loss, "Computes F.huber_loss.", 2)
BCELoss = _layer("BCELoss", F.binary_cross_entropy, "Computes F.binary_cross_entropy.", 2)
BCEWithLogitsLoss = _layer(
    "BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, "Computes F.binary_cross_entropy_with_logits.", 2
)
KLDivLoss = _layer("KLDivLoss", F.kl_div, "Computes F.kl_div.", 2)
PoissonNLLLoss = _layer("PoissonNLLLoss", F.poisson_nll_loss, "Computes F.poisson_nll_loss.", 2)
GaussianNLLLoss = _layer("GaussianNLLLoss", F.gaussian_nll_loss, "Computes F.gaussian_nll_loss.", 3)
MarginRankingLoss = _layer("MarginRankingLoss", F.margin_ranking_loss, "Computes F.margin_ranking_loss.", 3)
HingeEmbeddingLoss = _layer("HingeEmbeddingLoss", F.hinge_embedding_loss, "Computes F.hinge_embedding_loss.", 2)
SoftMarginLoss = _layer("SoftMarginLoss", F.soft_margin_loss, "Computes F.soft_margin_loss.", 2)
CosineEmbeddingLoss = _layer("CosineEmbeddingLoss", F.cosine_embedding_loss, "Computes F.cosine_embedding_loss.", 3)
TripletMarginLoss = _layer("TripletMarginLoss", F.triplet_margin_loss, "Computes F.triplet_margin_loss.", 3)
