"""Sample inputs of PyTorch's own OpInfo database, run through PyTorch and through us: values, and gradients of a weighed sum of them."""

import collections
import random
import warnings

import numpy as np

import karez as kz

KINDS = {"float64": (1e-7, 1e-7), "float32": (2e-4, 5e-5), "bfloat16": (2.0**-7, 2.0**-7), "float16": (2.0**-10, 2.0**-10)}  # relative and absolute
HALVES = ("bfloat16", "float16")  # PyTorch answers in f32, rounded once
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
    found = list(enumerate(op.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point and op.supports_autograd)))
    return found if most is None or len(found) <= most else sorted(draw.sample(found, most), key=lambda one: one[0])


def check(op, name, number, sample):
    import torch

    ours = ours_of(op)
    if sample.kwargs.get("dropout_p"):
        return Outcome(op.formatted_name, name, number, "none", "other random numbers")
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
            dtypes = [one.dtype for one in (theirs if isinstance(theirs, (list, tuple)) else [theirs]) if isinstance(one, torch.Tensor)]
            if name in HALVES:
                wide = sample.transform(widened)
                theirs, inputs = op(wide.input, *wide.args, **wide.kwargs), []
                taken([wide.input, *wide.args]), {key: taken(value) for key, value in wide.kwargs.items() if key not in PLACES}
    except Exception as error:  # an OpInfo's own
        return Outcome(op.formatted_name, name, number, "none", f"PyTorch refuses it: {error}")
    outputs = [one for one in (theirs if isinstance(theirs, (list, tuple)) else [theirs]) if isinstance(one, torch.Tensor)]
    if any(str(one.dtype).removeprefix("torch.") not in DTYPES for one in outputs):
        return Outcome(op.formatted_name, name, number, "none", "a dtype that we have not")
    leaves = [i for i, value in enumerate(inputs) if value.requires_grad and value.is_leaf]
    smooth = [one for one in outputs if one.requires_grad]
    weights = [weights_like(one, name) for one in smooth]
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
        loss = sum(((one.float() if name in HALVES else one) * w).sum() for one, w in zip(floats, weights))
        return made, kz.grad(loss, [values[i] for i in leaves])

    try:
        given = [value.detach().resolve_conj().numpy() for value in inputs]
        if name in HALVES:
            given = [kz.tensor(one).to(name) if one.dtype == np.float32 else one for one in given]
        got, grads = kz.compile(run)(*given)
        far = [str(to)[6:] for one, to in zip(got, dtypes) if one.dtype.name != str(to)[6:]]
        if far:
            return Outcome(op.formatted_name, name, number, "wrong", f"results are {[one.dtype.name for one in got]}, not {[str(to)[6:] for to in dtypes]}")
        got, grads = [read(one) for one in got], [read(one).astype(np.float32) if name in HALVES else read(one) for one in grads]
    except (kz.Error, TypeError, AttributeError, NotImplementedError, ValueError, IndexError, KeyError) as error:
        if isinstance(error, kz.DataError):
            kz.reset()  # a launch failed
        return Outcome(op.formatted_name, name, number, "refused", f"{type(error).__name__}: {str(error).splitlines()[0]}")
    relative, absolute = KINDS.get(name, KINDS["float32"])
    pairs = list(zip(got, [rounded(one, to) for one, to in zip(outputs, dtypes)])) + [
        (g, slope(w, name) if w is not None else np.zeros_like(g)) for g, w in zip(grads, want)]
    if len(got) != len(outputs):
        return Outcome(op.formatted_name, name, number, "wrong", f"{len(got)} results, not {len(outputs)}")
    for i, (one, other) in enumerate(pairs):
        said = "gradient" if i >= len(outputs) else "result"
        if one.shape != other.shape or one.dtype != other.dtype:
            return Outcome(op.formatted_name, name, number, "wrong", f"{said} {one.dtype}{one.shape}, not {other.dtype}{other.shape}")
        if name in HALVES:  # by the largest of both, for terms cancel
            absolute = KINDS[name][1] * max(1, np.nanmax(np.abs(np.where(np.isfinite(other), other, 0)), initial=0)) * (4 if i >= len(outputs) else 1)
        if not np.allclose(one, other, relative, absolute, equal_nan=True):
            far = np.abs(one.astype(float) - other.astype(float))
            return Outcome(op.formatted_name, name, number, "wrong", f"{said} {i} by {np.nanmax(far) if far.size else 0:.3g}: {sample}"[:300])
    return Outcome(op.formatted_name, name, number, "equal", "")


DTYPES = ("float32", "float64", "int32", "int64", "bool", *HALVES)


def read(x):
    return x.float().numpy() if x.dtype is kz.bfloat16 else x.numpy()


def slope(tensor, name):
    return (tensor.to(getattr(__import__("torch"), name)).float() if name in HALVES else tensor).detach().numpy(force=True)


def weights_like(tensor, name):
    """Of the dtype's numbers, so that what flows back is exact."""
    import torch

    made = torch.cos(torch.arange(tensor.numel(), dtype=torch.float64)).reshape(tensor.shape).to(getattr(torch, name))
    return (made.float() if name in HALVES else made).numpy()


def widened(value):
    """A tensor of halves as one of f32, which is a leaf where it was."""
    import torch

    if not isinstance(value, torch.Tensor) or str(value.dtype)[6:] not in HALVES:
        return value
    return value.detach().float().requires_grad_(value.requires_grad)


def rounded(tensor, dtype):
    """PyTorch's answer in the dtype; bfloat16 as float32."""
    made = tensor.detach().to(dtype)
    return (made.float() if str(dtype) == "torch.bfloat16" else made).numpy(force=True)


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
    most = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] != "all" else None
    for one in outcomes(most, only=sys.argv[2] if len(sys.argv) > 2 else "", dtypes=sys.argv[3:] or ("float64", "float32")):
        table[one.what] += 1
        if one.what in ("refused", "wrong"):
            lines.append(one)
    by = collections.Counter((one.op, one.what, one.text[:150]) for one in lines)
    for (op, what, text), count in sorted(by.items()):
        print(f"{count:4} {what:8} {op:40} {text}")
    print(dict(table), f"{time.time() - begin:.0f} s")
