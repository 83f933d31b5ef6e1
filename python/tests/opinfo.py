"""Sample inputs of PyTorch's own OpInfo database, run through PyTorch and through us: values, and gradients of a weighed sum of them."""

import collections
import random
import warnings

import numpy as np

import karez as kz

KINDS = {"float64": (1e-7, 1e-7), "float32": (2e-4, 5e-5)}  # relative and absolute
Outcome = collections.namedtuple("Outcome", ["op", "dtype", "number", "what", "text"])  # what: "equal", "refused" or "wrong"


def ours_of(op):
    """Our function of this name; None: we have none."""
    if op.name in ADAPTED:
        return ADAPTED[op.name]
    if op.name in RANDOM:
        return None
    if op.name in METHODS:
        return getattr(kz.Tensor, METHODS[op.name])
    name = op.name.rsplit(".", 1)[-1]
    for where in ((kz.F,) if op.name.startswith("nn.functional.") else (kz, kz.F) if "." not in op.name else ()):
        found = getattr(where, name, None)
        if callable(found) and not isinstance(found, type):
            return found
    return None


ADAPTED = {  # samples of these are not the function's own arguments
    "einsum": lambda tensors, equation: kz.einsum(equation, *tensors), "nn.functional.embedding": lambda weight, index, **words: kz.F.embedding(index, weight, **words), "where": lambda x, condition, other: kz.where(condition, x, other),
}
RANDOM = {"bernoulli", "rand_like", "randn_like", "rand", "randn", "randint", "randint_like", "nn.functional.dropout", "nn.functional.dropout2d"}  # other numbers
PLACES = ("device", "layout", "pin_memory", "memory_format", "requires_grad")  # no words of a program
METHODS = {"transpose": "transpose", "reshape": "reshape", "view": "view", "permute": "permute", "expand": "expand", "__getitem__": "__getitem__", "flatten": "flatten"}
METHODS |= {f"__r{name}__": f"__r{name}__" for name in ("add", "sub", "mul", "pow", "mod", "matmul")} | {"__rdiv__": "__rtruediv__", "__rpow__": "__rpow__"}


def samples(op, dtype, most, draw):
    """(number, sample), at most so many of them, drawn."""
    import torch

    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    found = list(enumerate(op.sample_inputs("cpu", dtype, requires_grad=dtype in op.allowed_types if hasattr(op, "allowed_types") else op.supports_autograd)))
    return found if most is None or len(found) <= most else sorted(draw.sample(found, most), key=lambda one: one[0])


def check(op, name, number, sample):
    import torch

    ours = ours_of(op)
    inputs = []

    def taken(value):
        """A tensor becomes the next argument; dtypes ours; what stays stays."""
        if isinstance(value, torch.Tensor):
            inputs.append(value)
            return Slot(len(inputs) - 1)
        if isinstance(value, torch.dtype):
            return str(value).removeprefix("torch.")
        if isinstance(value, (list, tuple)):
            return type(value)(map(taken, value)) if not hasattr(value, "_fields") else tuple(map(taken, value))
        return value

    args, words = taken([sample.input, *sample.args]), {key: taken(value) for key, value in sample.kwargs.items() if key not in PLACES}
    if any(str(value.dtype).removeprefix("torch.") not in DTYPES for value in inputs):
        return Outcome(op.formatted_name, name, number, "none", "a dtype that we have not")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = op(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:  # an OpInfo's own
        return Outcome(op.formatted_name, name, number, "none", f"PyTorch refuses it: {error}")
    outputs = [one for one in (theirs if isinstance(theirs, (list, tuple)) else [theirs]) if isinstance(one, torch.Tensor)]
    if any(str(one.dtype).removeprefix("torch.") not in DTYPES for one in outputs):
        return Outcome(op.formatted_name, name, number, "none", "a dtype that we have not")
    leaves = [i for i, value in enumerate(inputs) if value.requires_grad and value.is_leaf]
    smooth = [one for one in outputs if one.requires_grad]
    weights = [np.cos(np.arange(one.numel(), dtype=name)).reshape(one.shape) for one in smooth]
    want = [None] * len(leaves)
    if leaves and smooth:
        loss = sum((one * torch.from_numpy(w)).sum() for one, w in zip(smooth, weights))
        want = torch.autograd.grad(loss, [inputs[i] for i in leaves], allow_unused=True)

    def run(*values):
        made = ours(*put(args, values), **{key: put(value, values) for key, value in words.items()})
        made = [one for one in (made if isinstance(made, (list, tuple)) else [made])]
        if not smooth or not leaves:
            return made, []
        floats = [one for one, other in zip(made, outputs) if other.requires_grad]
        loss = sum((one * w).sum() for one, w in zip(floats, weights))
        return made, kz.grad(loss, [values[i] for i in leaves])

    try:
        got, grads = kz.compile(run)(*[value.detach().resolve_conj().numpy() for value in inputs])
        got, grads = [one.numpy() for one in got], [one.numpy() for one in grads]
    except (kz.Error, TypeError, AttributeError, NotImplementedError, ValueError, IndexError, KeyError) as error:
        if isinstance(error, kz.DataError):
            kz.reset()  # a launch failed
        return Outcome(op.formatted_name, name, number, "refused", f"{type(error).__name__}: {str(error).splitlines()[0]}")
    relative, absolute = KINDS[name]
    pairs = list(zip(got, [one.detach().numpy(force=True) for one in outputs])) + [(g, w.detach().numpy(force=True) if w is not None else np.zeros_like(g)) for g, w in zip(grads, want)]
    if len(got) != len(outputs):
        return Outcome(op.formatted_name, name, number, "wrong", f"{len(got)} results, not {len(outputs)}")
    for i, (one, other) in enumerate(pairs):
        said = "gradient" if i >= len(outputs) else "result"
        if one.shape != other.shape or one.dtype != other.dtype:
            return Outcome(op.formatted_name, name, number, "wrong", f"{said} {one.dtype}{one.shape}, not {other.dtype}{other.shape}")
        if not np.allclose(one, other, relative, absolute, equal_nan=True):
            far = np.abs(one.astype(float) - other.astype(float))
            return Outcome(op.formatted_name, name, number, "wrong", f"{said} {i} by {np.nanmax(far) if far.size else 0:.3g}: {sample}"[:300])
    return Outcome(op.formatted_name, name, number, "equal", "")


DTYPES = ("float32", "float64", "int32", "int64", "bool")


class Slot:
    def __init__(self, number):
        self.number = number


def put(value, values):
    if isinstance(value, Slot):
        return values[value.number]
    if isinstance(value, (list, tuple)):
        return type(value)(put(one, values) for one in value)
    return value


def outcomes(most=None, seed=0, dtypes=("float64", "float32"), only=""):
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    draw = random.Random(seed)
    for op in op_db:
        if only and op.name not in only.split(",") or ours_of(op) is None:
            continue
        for name in dtypes:
            dtype = getattr(torch, name)
            if dtype in op.dtypes:
                for number, sample in samples(op, dtype, most, draw):
                    yield check(op, name, number, sample)


if __name__ == "__main__":
    import sys
    import time

    begin, table, lines = time.time(), collections.Counter(), []
    for one in outcomes(int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] != "all" else None, only=sys.argv[2] if len(sys.argv) > 2 else ""):
        table[one.what] += 1
        if one.what in ("refused", "wrong"):
            lines.append(one)
    by = collections.Counter((one.op, one.what, one.text[:150]) for one in lines)
    for (op, what, text), count in sorted(by.items()):
        print(f"{count:4} {what:8} {op:40} {text}")
    print(dict(table), f"{time.time() - begin:.0f} s")
