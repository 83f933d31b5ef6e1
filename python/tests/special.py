"""Special values: functions and arguments for which special_answers.xz contains PyTorch's answers. Run as a program,
this file computes the answers with PyTorch and stores them."""

import json
import lzma
import pathlib
import sys

import numpy as np

STORED = pathlib.Path(__file__).with_name("special_answers.xz")
DTYPES = ("float64", "float32", "bfloat16", "float16", "int32", "int64", "bool")
inf, nan = float("inf"), float("nan")
LIMITS = {  # the largest, the smallest normal and the smallest positive number
    "float64": (1.7976931348623157e308, 2.2250738585072014e-308, 5e-324),
    "float32": (3.4028234663852886e38, 1.1754943508222875e-38, 1.401298464324817e-45),
    "bfloat16": (3.3895313892515355e38, 1.1754943508222875e-38, 9.183549615799121e-41),
    "float16": (65504.0, 6.103515625e-05, 5.960464477539063e-08),
}
EXACT = {
    "neg",
    "abs",
    "relu",
    "relu6",
    "sign",
    "floor",
    "ceil",
    "trunc",
    "round",
    "frac",
    "isnan",
    "isinf",
    "isfinite",
    "square",
    "positive",
    "nan_to_num",
}
UNARY = (
    "neg abs exp log sqrt rsqrt tanh sigmoid sin cos tan sinh cosh erf erfc exp2 expm1 log1p log2 log10 reciprocal "
    "square sinc deg2rad rad2deg sign floor "
    "ceil trunc round frac isnan isinf isfinite nan_to_num logit positive logical_not bitwise_not "
    "F.relu F.gelu F.silu F.softplus F.logsigmoid F.softsign F.mish F.tanhshrink F.relu6 F.hardsigmoid F.hardswish "
    "F.selu F.elu F.celu F.leaky_relu F.hardtanh F.hardshrink F.softshrink"
).split()
BINARY = (
    "add sub mul div floor_divide remainder fmod pow maximum minimum hypot logaddexp xlogy heaviside eq ne lt "
    "le gt ge logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor"
).split()
REDUCTIONS = (
    "sum mean amax amin max min prod any all argmax argmin cumsum var std logsumexp softmax log_softmax norm "
    "nansum nanmean count_nonzero sort clamp"
).split()
NAMES = {"F.logsigmoid": "logsigmoid"}


def scalars(dtype):
    """Single values: zeros, ones, ties when rounding, limits, infinities, NaN."""
    if dtype == "bool":
        return [False, True]
    if dtype.startswith("int"):
        return [0, 1, -1, 2, -2, 3, -7, 10, 100, np.iinfo(dtype).max, np.iinfo(dtype).min]
    largest, normal, smallest = LIMITS[dtype]
    magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 20.0, 1e-3, 100.0, largest, normal, smallest, inf]
    return magnitudes + [-item for item in magnitudes] + [nan]


def rows(dtype):
    """Rows of three values: ties, zeros of either sign, an outlier, infinities, NaN."""
    if dtype == "bool":
        return [[False, False, False], [True, True, True], [False, True, True]]
    if dtype.startswith("int"):
        return [[2, 2, 2], [0, 0, 0], [-3, 5, 5], [np.iinfo(dtype).max, 1, 0], [np.iinfo(dtype).min, -1, 0]]
    largest, normal, smallest = LIMITS[dtype]
    finite = [[2, 2, 2], [0.0, -0.0, 0.0], [-3, 5, 5], [largest, 1, 0], [-largest, 2, 2], [smallest, smallest, normal]]
    return finite + [[inf, 1, inf], [-inf, -inf, -inf], [inf, -inf, 0], [nan, 1, nan]]


def samples(dtype):
    """Yields (function, number of the sample, arguments as lists, keywords)."""
    ones = scalars(dtype)
    for name in UNARY:
        yield name, 0, [ones], {}
        yield name, 1, [[]], {}
    few = ones
    if not is_whole(dtype):
        largest, _, smallest = LIMITS[dtype]
        few = [0.0, -0.0, 0.5, 1.0, -1.0, -2.5, 3.0, largest, -largest, smallest, -smallest, inf, -inf, nan]
    for name in BINARY:
        yield name, 0, [[a for a in few for _ in few], [b for _ in few for b in few]], {}
        yield name, 1, [[], []], {}
    for name in REDUCTIONS:
        keywords = {"dim": 1} if name != "clamp" else {"min": 0, "max": 2}
        yield name, 0, [rows(dtype)], keywords
        if name in (
            "sum",
            "mean",
            "prod",
            "any",
            "all",
            "cumsum",
            "logsumexp",
            "softmax",
            "norm",
            "nansum",
            "count_nonzero",
            "clamp",
            "sort",
        ):
            yield name, 1, [[[], []]], keywords


def is_whole(dtype):
    return not dtype.startswith(("float", "bfloat"))


def is_skipped(name, dtype, arguments):
    """Whether the sample is skipped: in Karez, integer division by zero is an error."""
    return dtype.startswith("int") and name in ("floor_divide", "remainder", "fmod")


def weights(count):
    return np.cos(np.arange(count, dtype=np.float64)) + 1.5


def main():
    import torch

    torch.set_num_threads(1)
    stored = {}
    for dtype in DTYPES:
        for name, number, arguments, keywords in samples(dtype):
            if is_skipped(name, dtype, arguments):
                continue
            key = f"{name}|{dtype}|{number}"
            function = (
                getattr(torch.nn.functional, name[2:])
                if name.startswith("F.")
                else torch.linalg.vector_norm
                if name == "norm"
                else getattr(torch, name)
            )
            function = torch.nn.functional.logsigmoid if name == "F.logsigmoid" else function
            inputs = [torch.tensor(argument, dtype=getattr(torch, dtype)) for argument in arguments]
            try:
                arrays = function(*inputs, **keywords)
            except Exception:
                continue  # PyTorch does not support this dtype
            dtypes = [item.dtype for item in (arrays if isinstance(arrays, tuple) else [arrays])]
            # To be as exact as possible, the answer is computed in a wider dtype and rounded once. Reductions of f32
            # are computed in f32, so that they overflow where f32 overflows.
            if not is_whole(dtype) and name != "nan_to_num":
                wide_dtype = (
                    torch.float64
                    if name not in REDUCTIONS
                    else torch.float32
                    if dtype in ("bfloat16", "float16")
                    else inputs[0].dtype
                )
                inputs = [item.to(wide_dtype).requires_grad_() for item in inputs]
                arrays = function(*inputs, **keywords)
            arrays = [
                item if item.dtype == to else item.to(to)
                for item, to in zip(arrays if isinstance(arrays, tuple) else [arrays], dtypes)
            ]
            for i, element in enumerate(arrays):
                stored[f"{key}|{i}"] = storable_array(element.detach())
            smooth = [item for item in arrays if item.requires_grad]
            if smooth and name not in NO_SLOPE:
                total = sum(
                    (item.double() * torch.tensor(weights(item.numel())).reshape(item.shape)).sum() for item in smooth
                )
                try:
                    grads = torch.autograd.grad(total, inputs, allow_unused=True)
                except Exception:
                    continue
                for i, element in enumerate(grads):
                    if element is not None:
                        stored[f"{key}|d{i}"] = storable_array(element.to(getattr(torch, dtype)))
    index = [[key, value.dtype.str, list(value.shape)] for key, value in stored.items()]
    STORED.write_bytes(
        lzma.compress(json.dumps(index).encode() + b"\n" + b"".join(value.tobytes() for value in stored.values()))
    )
    print(f"{len(stored)} answers from PyTorch {torch.__version__} in {STORED.stat().st_size} bytes")


NO_SLOPE = {"heaviside", "floor_divide"}


def storable_array(tensor):
    """The tensor as an array; for bfloat16, which NumPy lacks, the bits as uint16."""
    import torch

    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype is torch.bfloat16 else tensor.numpy()


def answers():
    """PyTorch's answers by key: "function|dtype|sample|result", or "function|dtype|sample|d0" for a gradient. bfloat16
    answers are float32 arrays."""
    head, data = lzma.decompress(STORED.read_bytes()).split(b"\n", 1)
    arrays, at = {}, 0
    for key, dtype, shape in json.loads(head):
        one = np.frombuffer(data, dtype, int(np.prod(shape)), at).reshape(shape)
        at += one.nbytes
        arrays[key] = (one.astype(np.uint32) << 16).view(np.float32) if dtype == "<u2" else one
    return arrays


if __name__ == "__main__":
    sys.exit(main())
