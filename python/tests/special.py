"""Special values: functions and the arguments on which PyTorch's answers are stored in special_answers.xz. As a program
it computes them with PyTorch and stores them."""

import json
import lzma
import pathlib
import sys

import numpy as np

STORED = pathlib.Path(__file__).with_name("special_answers.xz")
DTYPES = ("float64", "float32", "bfloat16", "float16", "int32", "int64", "bool")
inf, nan = float("inf"), float("nan")
LIMITS = {  # largest, smallest normal, smallest
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
    "neg abs exp log sqrt rsqrt tanh sigmoid sin cos tan sinh cosh erf erfc exp2 expm1 log1p log2 log10 reciprocal square sinc deg2rad rad2deg sign floor "
    "ceil trunc round frac isnan isinf isfinite nan_to_num logit positive logical_not bitwise_not "
    "F.relu F.gelu F.silu F.softplus F.logsigmoid F.softsign F.mish F.tanhshrink F.relu6 F.hardsigmoid F.hardswish F.selu F.elu F.celu "
    "F.leaky_relu F.hardtanh F.hardshrink F.softshrink"
).split()
BINARY = (
    "add sub mul div floor_divide remainder fmod pow maximum minimum hypot logaddexp xlogy heaviside eq ne lt le gt ge logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor"
).split()
REDUCTIONS = (
    "sum mean amax amin max min prod any all argmax argmin cumsum var std logsumexp softmax log_softmax norm nansum nanmean count_nonzero sort clamp"
).split()
NAMES = {"F.logsigmoid": "logsigmoid"}


def scalars(dtype):
    """Single values: zeros, ones, ties of rounding, limits, infinities, NaN."""
    if dtype == "bool":
        return [False, True]
    if dtype.startswith("int"):
        return [0, 1, -1, 2, -2, 3, -7, 10, 100, np.iinfo(dtype).max, np.iinfo(dtype).min]
    most, normal, least = LIMITS[dtype]
    both = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 20.0, 1e-3, 100.0, most, normal, least, inf]
    return both + [-one for one in both] + [nan]


def rows(dtype):
    """Rows of three: ties, zeros of both signs, an outlier, infinities, NaN."""
    if dtype == "bool":
        return [[False, False, False], [True, True, True], [False, True, True]]
    if dtype.startswith("int"):
        return [[2, 2, 2], [0, 0, 0], [-3, 5, 5], [np.iinfo(dtype).max, 1, 0], [np.iinfo(dtype).min, -1, 0]]
    most, normal, least = LIMITS[dtype]
    finite = [[2, 2, 2], [0.0, -0.0, 0.0], [-3, 5, 5], [most, 1, 0], [-most, 2, 2], [least, least, normal]]
    return finite + [[inf, 1, inf], [-inf, -inf, -inf], [inf, -inf, 0], [nan, 1, nan]]


def samples(dtype):
    """(function, number of the sample, arguments as lists, keywords)."""
    ones = scalars(dtype)
    for name in UNARY:
        yield name, 0, [ones], {}
        yield name, 1, [[]], {}
    few = ones
    if not is_whole(dtype):
        most, _, least = LIMITS[dtype]
        few = [0.0, -0.0, 0.5, 1.0, -1.0, -2.5, 3.0, most, -most, least, -least, inf, -inf, nan]
    for name in BINARY:
        yield name, 0, [[a for a in few for _ in few], [b for _ in few for b in few]], {}
        yield name, 1, [[], []], {}
    for name in REDUCTIONS:
        words = {"dim": 1} if name != "clamp" else {"min": 0, "max": 2}
        yield name, 0, [rows(dtype)], words
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
            yield name, 1, [[[], []]], words


def is_whole(dtype):
    return not dtype.startswith(("float", "bfloat"))


def asks_nothing(name, dtype, arguments):
    """Samples that are skipped: division of integers by zero is an error here."""
    return dtype.startswith("int") and name in ("floor_divide", "remainder", "fmod")


def weights(count):
    return np.cos(np.arange(count, dtype=np.float64)) + 1.5


def main():
    import torch

    torch.set_num_threads(1)
    stored = {}
    for dtype in DTYPES:
        for name, number, arguments, words in samples(dtype):
            if asks_nothing(name, dtype, arguments):
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
            inputs = [torch.tensor(one, dtype=getattr(torch, dtype)) for one in arguments]
            try:
                made = function(*inputs, **words)
            except Exception:
                continue  # PyTorch does not support this dtype
            dtypes = [one.dtype for one in (made if isinstance(made, tuple) else [made])]
            # Computed in a wider dtype and rounded once: the best answer in the dtype. Sums of f32 overflow as f32
            # does.
            if not is_whole(dtype) and name != "nan_to_num":
                wide = (
                    torch.float64
                    if name not in REDUCTIONS
                    else torch.float32
                    if dtype in ("bfloat16", "float16")
                    else inputs[0].dtype
                )
                inputs = [one.to(wide).requires_grad_() for one in inputs]
                made = function(*inputs, **words)
            made = [
                one if one.dtype == to else one.to(to)
                for one, to in zip(made if isinstance(made, tuple) else [made], dtypes)
            ]
            for i, one in enumerate(made):
                stored[f"{key}|{i}"] = packed(one.detach())
            smooth = [one for one in made if one.requires_grad]
            if smooth and name not in NO_SLOPE:
                total = sum(
                    (one.double() * torch.tensor(weights(one.numel())).reshape(one.shape)).sum() for one in smooth
                )
                try:
                    grads = torch.autograd.grad(total, inputs, allow_unused=True)
                except Exception:
                    continue
                for i, one in enumerate(grads):
                    if one is not None:
                        stored[f"{key}|d{i}"] = packed(one.to(getattr(torch, dtype)))
    index = [[key, one.dtype.str, list(one.shape)] for key, one in stored.items()]
    STORED.write_bytes(
        lzma.compress(json.dumps(index).encode() + b"\n" + b"".join(one.tobytes() for one in stored.values()))
    )
    print(f"{len(stored)} answers of PyTorch {torch.__version__} in {STORED.stat().st_size} bytes")


NO_SLOPE = {"heaviside", "floor_divide"}


def packed(tensor):
    """NumPy has no bfloat16: the bits of it."""
    import torch

    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype is torch.bfloat16 else tensor.numpy()


def answers():
    """PyTorch's answers, by "function|dtype|sample|result" or, for gradients, "...|d0"; bfloat16 as float32."""
    head, data = lzma.decompress(STORED.read_bytes()).split(b"\n", 1)
    made, at = {}, 0
    for key, dtype, shape in json.loads(head):
        one = np.frombuffer(data, dtype, int(np.prod(shape)), at).reshape(shape)
        at += one.nbytes
        made[key] = (one.astype(np.uint32) << 16).view(np.float32) if dtype == "<u2" else one
    return made


if __name__ == "__main__":
    sys.exit(main())
