"""Cases of PyTorch's OpInfo database as data: a sample with PyTorch's answers, which Karez computes and compares. Needs
no PyTorch."""

import collections
import json
import lzma
import pathlib
import warnings

import numpy as np

import karez as kz

STORED = pathlib.Path(__file__).with_name("opinfo_answers.xz")
HALVES = ("bfloat16", "float16")  # PyTorch answers in f32, rounded once
OTHERS = (*HALVES, "int32", "int64", "bool")
DTYPES = ("float64", "float32", *OTHERS)
# relative and absolute
KINDS = {
    "float64": (1e-7, 1e-7),
    "float32": (2e-4, 5e-5),
    "bfloat16": (2.0**-7, 2.0**-7),
    "float16": (2.0**-10, 2.0**-10),
}
ADAPTED = {  # samples of these ops are not arguments of the function
    "einsum": lambda tensors, equation: kz.einsum(equation, *tensors),
    "nn.functional.embedding": lambda weight, index, **words: kz.F.embedding(index, weight, **words),
    "where": lambda x, condition, other: kz.where(condition, x, other),
}
# random numbers differ
RANDOM = {
    "bernoulli",
    "rand_like",
    "randn_like",
    "rand",
    "randn",
    "randint",
    "randint_like",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
}
METHODS = {
    "transpose": "transpose",
    "reshape": "reshape",
    "view": "view",
    "permute": "permute",
    "expand": "expand",
    "__getitem__": "__getitem__",
    "flatten": "flatten",
}
METHODS |= {f"__r{name}__": f"__r{name}__" for name in ("add", "sub", "mul", "pow", "mod", "matmul")} | {
    "__rdiv__": "__rtruediv__",
    "__rpow__": "__rpow__",
}
EXCLUDED = {  # the reason, by op and text of the outcome
    ("cov", "fweights"): "weights of observations are not there",
    ("nn_functional_scaled_dot_product_attention", "equal ranks"): "leading dimensions do not broadcast",
    (
        "narrow",
        "on a tensor inside of a compiled function",
    ): "a start that is a tensor: shapes and places do not depend on numbers",
    ("repeat_interleave", "must be an int"): "a shape that depends on numbers",
    ("repeat_interleave", "output_size"): "likewise",
    ("__getitem__", "a mask as an index"): "likewise",
    ("nn_functional_batch_norm", "tuple index out of range"): "a batch without channels",
    ("norm_nuc", "'nuc'"): "the nuclear norm needs singular values",
    ("einsum", "occurs twice"): "diagonals",
    (
        "nn_functional_conv_transpose2d",
        "windows over an image",
    ): "an output_padding of the stride and more, which a dilation allows in PyTorch",
    ("nn_functional_one_hot", "the depth is negative"): "a shape that depends on numbers",
    **{
        (f"nn_functional_{name}", "expected f32 or f64"): "convolutions of integers"
        for name in ("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d")
    },
    ("tensordot", "differ"): "sizes of 1 that are summed with larger ones",
}
APART = {  # the reason, by op and results that differ
    ("topk", "result 1"): "places of equal elements, which PyTorch leaves open",
    ("einsum", "int32"): "a sum of int32 by einsum stays int32",
    ("nn_functional_avg_pool1d", "int64"): "means of integers are floats",
    ("nn_functional_avg_pool2d", "int64"): "means of integers are floats",
    (
        "nn_functional_poisson_nll_loss",
        "gradient 2 is NaN in PyTorch",
    ): "of a target of 0: a term that is left out has log(0) there",
}

# what: "equal", "refused", "wrong" or "none"
Outcome = collections.namedtuple("Outcome", ["op", "dtype", "number", "what", "text"])
# One sample: args begin with its input; a Slot in them is one of `inputs`, which are f32 for a half dtype. By output:
# its value, dtype and whether it has a gradient. `leaves` are the inputs with a gradient, `grads` PyTorch's of the
# weighted sum of outputs, None if the sum does not depend on the leaf.
Case = collections.namedtuple(
    "Case",
    ["op", "name", "dtype", "number", "args", "words", "inputs", "leaves", "outputs", "dtypes", "smooth", "grads"],
)


class Slot:
    """The position of an input among arguments."""

    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return f"tensor {self.number}"


def ours_of(name):
    """The function of Karez for the name of an op; None if there is none."""
    if name in ADAPTED:
        return ADAPTED[name]
    if name in RANDOM:
        return None
    if name in METHODS:
        return getattr(kz.Tensor, METHODS[name])
    last = name.rsplit(".", 1)[-1]
    for where in (kz.F,) if name.startswith("nn.functional.") else (kz, kz.F) if "." not in name else ():
        found = getattr(where, last, None)
        if callable(found) and not isinstance(found, type):
            return found
    return None


def public_of(names):
    """The names of ops that are public functions of Karez and draw no random numbers."""
    public = {
        n
        for module in (kz.functions, kz.pointwise, kz.manipulation, kz.products, kz.reductions)
        for n in module.__all__
    }
    return (
        {n for n in public if n in names}
        | {"nn.functional." + n for n in kz.F.__all__ if "nn.functional." + n in names}
    ) - RANDOM


def weights_of(shape, dtype):
    """Weights that are exact in the dtype, so that the gradient is exact; f32 for halves."""
    made = (np.arange(int(np.prod(shape))) * 37 % 64 * 2 - 63) / 64
    return made.reshape(shape).astype("float32" if dtype in HALVES else dtype)


def put(value, values):
    if isinstance(value, Slot):
        return values[value.number]
    if isinstance(value, (list, tuple)):
        return type(value)(put(one, values) for one in value)
    return value


def read(x):
    return x.float().numpy() if x.dtype is kz.bfloat16 else x.numpy()


def compared(case):
    """Compares the sample in Karez, forward and gradient, with PyTorch's answers."""
    ours, half, has_gradients = ours_of(case.name), case.dtype in HALVES, bool(case.leaves) and any(case.smooth)
    weights = [weights_of(one.shape, case.dtype) for one, smooth in zip(case.outputs, case.smooth) if smooth]

    def outcome(what, text=""):
        return Outcome(case.op, case.dtype, case.number, what, text)

    def run(*values):
        made = ours(*put(case.args, values), **{key: put(value, values) for key, value in case.words.items()})
        made = [one for one in (made if isinstance(made, (list, tuple)) else [made])]
        if not has_gradients:
            return made, []
        floats = [one for one, smooth in zip(made, case.smooth) if smooth]
        loss = sum(((one.float() if half else one) * w).sum() for one, w in zip(floats, weights))
        return made, kz.grad(loss, [values[i] for i in case.leaves])

    try:
        given = [kz.tensor(one).to(case.dtype) if half and one.dtype == np.float32 else one for one in case.inputs]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got, grads = kz.compile(run)(*given)
        dtypes = [one.dtype.name for one in got]
        if any(one != to for one, to in zip(dtypes, case.dtypes)):
            return outcome("wrong", f"results are {dtypes}, not {case.dtypes}")
        got, grads = [read(one) for one in got], [read(one).astype(np.float32) if half else read(one) for one in grads]
    except (kz.Error, TypeError, AttributeError, NotImplementedError, ValueError, IndexError, KeyError) as error:
        if isinstance(error, kz.DataError):
            kz.reset()  # a launch failed
        return outcome("refused", f"{type(error).__name__}: {str(error).splitlines()[0]}")
    if len(got) != len(case.outputs):
        return outcome("wrong", f"{len(got)} results, not {len(case.outputs)}")
    relative, absolute = KINDS.get(case.dtype, KINDS["float32"])
    pairs = [
        *zip(got, case.outputs),
        *((g, w if w is not None else np.zeros_like(g)) for g, w in zip(grads, case.grads)),
    ]
    for i, (one, other) in enumerate(pairs):
        message = "gradient" if i >= len(got) else "result"
        if one.shape != other.shape or one.dtype != other.dtype:
            return outcome("wrong", f"{message} {one.dtype}{one.shape}, not {other.dtype}{other.shape}")
        if half:  # relative to the largest of both, since terms cancel
            absolute = (
                KINDS[case.dtype][1]
                * max(1, np.nanmax(np.abs(np.where(np.isfinite(other), other, 0)), initial=0))
                * (4 if i >= len(got) else 1)
            )
        if not np.allclose(one, other, relative, absolute, equal_nan=True):
            far = np.abs(np.where(np.isfinite(one), one, 0).astype(float) - np.where(np.isfinite(other), other, 0))
            how = f"by {np.max(far):.3g}" if np.isnan(one[np.isnan(other)]).all() else "is NaN in PyTorch"
            return outcome(
                "wrong",
                f"{message} {i} {how}: input={case.args[0]}, args={tuple(case.args[1:])}, kwargs={case.words}"[:300],
            )
    return outcome("equal")


def reason(op, text):
    """The reason for which an error is allowed; None if it is a fault."""
    return next((why for (name, message), why in EXCLUDED.items() if name == op and message in text), None)


def faults(outcomes):
    """The outcomes that neither agree with PyTorch nor may differ."""

    def is_fault(one):
        if one.what == "wrong":
            return not any(one.op == name and message in one.text for name, message in APART)
        return one.what == "refused" and reason(one.op, one.text) is None

    return [one for one in outcomes if is_fault(one)]


def store(cases, facts):
    """Writes the cases and facts about them to the file that `stored` reads: a line of JSON, then the bytes of arrays,
    for each array all first bytes, then all second ones, which compresses better."""
    index, data = [], []

    def array(one):
        data.append(np.frombuffer(one.tobytes(), np.uint8).reshape(-1, one.itemsize).T.tobytes())
        return [one.dtype.str, list(one.shape)]

    for case in cases:
        arrays = {
            name: [None if one is None else array(one) for one in getattr(case, name)]
            for name in ("inputs", "outputs", "grads")
        }
        index.append(case._replace(args=encoded(case.args), words=encoded(case.words), **arrays))
    head = json.dumps(facts | {"cases": index}, separators=(",", ":"), allow_nan=False)
    STORED.write_bytes(lzma.compress(head.encode() + b"\n" + b"".join(data), preset=9 | lzma.PRESET_EXTREME))


def stored():
    """The (cases, facts) that `store` wrote."""
    head, data = lzma.decompress(STORED.read_bytes()).split(b"\n", 1)
    facts, at, cases = json.loads(head), 0, []
    for fields in facts.pop("cases"):
        case = Case(*fields)

        def array(one):
            nonlocal at
            dtype, shape = np.dtype(one[0]), one[1]
            size = int(np.prod(shape)) * dtype.itemsize
            flat = np.frombuffer(data, np.uint8, size, at).reshape(dtype.itemsize, -1).T.tobytes()
            at += size
            return np.frombuffer(flat, dtype).reshape(shape).copy()

        arrays = {
            name: [None if one is None else array(one) for one in getattr(case, name)]
            for name in ("inputs", "outputs", "grads")
        }
        cases.append(case._replace(args=decoded(case.args), words=decoded(case.words), **arrays))
    return cases, facts


def encoded(value):
    """The value as JSON: a type that JSON lacks is a dict with one key, its kind."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": str(value)}
    if isinstance(value, complex):
        return {"complex": str(value)}
    if isinstance(value, Slot):
        return {"slot": value.number}
    if isinstance(value, list):
        return [encoded(one) for one in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(one) for one in value]}
    if isinstance(value, slice):
        return {"slice": [encoded(one) for one in (value.start, value.stop, value.step)]}
    if value is ...:
        return {"...": 0}
    if isinstance(value, dict):
        return {"dict": [[key, encoded(one)] for key, one in value.items()]}
    raise TypeError(f"an argument of type {type(value).__name__} cannot be stored")


def decoded(value):
    if isinstance(value, list):
        return [decoded(one) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, one),) = value.items()
    make = {
        "float": float,
        "complex": complex,
        "slot": Slot,
        "tuple": lambda items: tuple(map(decoded, items)),
        "slice": lambda items: slice(*map(decoded, items)),
        "...": lambda _: ...,
        "dict": lambda items: {key: decoded(item) for key, item in items},
    }
    return make[kind](one)
