"""Stored samples of PyTorch's OpInfo database with PyTorch's answers, and their comparison with the results of Karez.
This file does not import PyTorch."""

import collections
import json
import lzma
import pathlib
import warnings

import numpy as np

import karez as kz

STORED = pathlib.Path(__file__).with_name("opinfo_answers.xz")
HALVES = ("bfloat16", "float16")  # PyTorch computes these answers in f32; they are rounded once
OTHERS = (*HALVES, "int32", "int64", "bool")
DTYPES = ("float64", "float32", *OTHERS)
# The relative and the absolute tolerance.
KINDS = {
    "float64": (1e-7, 1e-7),
    "float32": (2e-4, 5e-5),
    "bfloat16": (2.0**-7, 2.0**-7),
    "float16": (2.0**-10, 2.0**-10),
}
ADAPTED = {  # ops whose samples have arguments in another order or form
    "einsum": lambda tensors, equation: kz.einsum(equation, *tensors),
    "nn.functional.embedding": lambda weight, index, **keywords: kz.F.embedding(index, weight, **keywords),
    "where": lambda x, condition, value: kz.where(condition, x, value),
    # Batch norm writes to running statistics, and arguments of a compiled function cannot be written.
    "nn.functional.batch_norm": lambda x, mean, var, *options, **keywords: kz.F.batch_norm(
        x, *(value if value is None else value.clone() for value in (mean, var)), *options, **keywords
    ),
}
# functions whose results have shapes that depend on values, which they read; they do not work in compiled functions
OUTSIDE = {"argwhere", "bincount", "masked_select", "nonzero", "unique", "unique_consecutive"}
# functions whose random numbers, or values without meaning, differ from those of PyTorch
RANDOM = {
    "empty",
    "empty_like",
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
EXCLUDED = {  # the reason why Karez may reject a sample, by op and a fragment of the error message
    ("cov", "fweights"): "weights of observations are not supported",
    ("nn_functional_scaled_dot_product_attention", "equal ranks"): "leading dimensions do not broadcast",
    (
        "narrow",
        "must not be the condition of a Python",
    ): "a start that is a tensor: shapes and positions do not depend on values",
    ("repeat_interleave", "must be an int"): "a shape that depends on values",
    ("repeat_interleave", "output_size"): "a shape that depends on values",
    ("__getitem__", "must not be a mask"): "a shape that depends on values",
    ("nn_functional_batch_norm", "expected at least 2 dimensions"): "a batch without channels",
    ("norm_nuc", "'nuc'"): "the nuclear norm needs singular values",
    ("einsum", "occurs twice"): "diagonals",
    (
        "nn_functional_conv_transpose2d",
        "windows over an image",
    ): "an output_padding of at least the stride, which PyTorch allows if it is smaller than the dilation",
    ("nn_functional_one_hot", "depth must be at least 0"): "a shape that depends on values",
    **{
        (f"nn_functional_{name}", "expected f32 or f64"): "convolutions of integers"
        for name in ("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d")
    },
    ("tensordot", "differ"): "a dimension of size 1 that is summed with a larger dimension",
}
DIFFERENT_RESULTS = {  # the reason why a result may differ, by op and a fragment of the outcome's text
    ("topk", "result 1"): "indices of equal elements, which PyTorch does not specify",
    ("einsum", "int32"): "einsum of int32 operands returns int32",
    ("nn_functional_avg_pool1d", "int64"): "means of integers are floats",
    ("nn_functional_avg_pool2d", "int64"): "means of integers are floats",
    (
        "nn_functional_poisson_nll_loss",
        "gradient 2 is NaN in PyTorch",
    ): "with a target of 0, PyTorch differentiates an omitted term, log(0)",
}

# `what` is "equal", "rejected", "wrong" or "excluded"
Outcome = collections.namedtuple("Outcome", ["op", "dtype", "number", "what", "text"])
# One sample. `args` begins with the sample's input; a Slot in `args` or `keywords` stands for one of `inputs`, which
# are f32 for a half dtype. For each output, `outputs` has the value, `dtypes` the dtype, and `smooth` whether it has a
# gradient. `leaves` are the inputs with a gradient. `grads` are PyTorch's gradients of the weighted sum of the outputs;
# a gradient is None if the sum does not depend on the leaf.
Case = collections.namedtuple(
    "Case",
    ["op", "name", "dtype", "number", "args", "keywords", "inputs", "leaves", "outputs", "dtypes", "smooth", "grads"],
)


class Slot:
    """Stands for an input in the arguments of a sample."""

    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return f"tensor {self.number}"


def karez_function(name):
    """The function of Karez with the name of an op, or None if Karez has no such function."""
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


def public_functions(names):
    """The names of ops that are public functions of Karez and draw no random numbers."""
    public = {
        n
        for module in (
            kz.functions,
            kz.pointwise,
            kz.manipulation,
            kz.products,
            kz.reductions,
            kz.searching,
            kz.selection,
            kz.unique_values,
        )
        for n in module.__all__
    }
    return (
        {n for n in public if n in names}
        | {"nn.functional." + n for n in kz.F.__all__ if "nn.functional." + n in names}
    ) - RANDOM


def weights_of(shape, dtype):
    """Weights that are exact in the dtype, so that the gradient is exact; for half dtypes they are f32."""
    numbers = (np.arange(int(np.prod(shape))) * 37 % 64 * 2 - 63) / 64
    return numbers.reshape(shape).astype("float32" if dtype in HALVES else dtype)


def fill_slots(value, values):
    if isinstance(value, Slot):
        return values[value.number]
    if isinstance(value, (list, tuple)):
        return type(value)(fill_slots(item, values) for item in value)
    return value


def read(x):
    return x.float().numpy() if x.dtype is kz.bfloat16 else x.numpy()


def compare(case):
    """Computes the sample and its gradients in Karez, and compares them with PyTorch's answers."""
    function, half = karez_function(case.name), case.dtype in HALVES
    has_gradients = bool(case.leaves) and any(case.smooth)
    weights = [weights_of(output.shape, case.dtype) for output, smooth in zip(case.outputs, case.smooth) if smooth]

    def outcome(what, text=""):
        return Outcome(case.op, case.dtype, case.number, what, text)

    def run(*values):
        keywords = {key: fill_slots(value, values) for key, value in case.keywords.items()}
        numbers = function(*fill_slots(case.args, values), **keywords)
        numbers = [item for item in (numbers if isinstance(numbers, (list, tuple)) else [numbers])]
        if not has_gradients:
            return numbers, []
        floats = [item for item, smooth in zip(numbers, case.smooth) if smooth]
        loss = sum(((item.float() if half else item) * w).sum() for item, w in zip(floats, weights))
        leaves = [values[i] for i in case.leaves]
        return numbers, kz.autograd.grad(loss, leaves) if case.name in OUTSIDE else kz.grad(loss, leaves)

    try:
        inputs_given = [
            kz.tensor(item).to(case.dtype) if half and item.dtype == np.float32 else item for item in case.inputs
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if case.name in OUTSIDE:
                leaves = {i for i in case.leaves if has_gradients}
                tensors = [item if isinstance(item, kz.Tensor) else kz.tensor(item) for item in inputs_given]
                got, grads = run(*(item.requires_grad_(i in leaves) for i, item in enumerate(tensors)))
            else:
                got, grads = kz.compile(run)(*inputs_given)
        dtypes = [item.dtype.name for item in got]
        if any(dtype != to for dtype, to in zip(dtypes, case.dtypes)):
            return outcome("wrong", f"results are {dtypes}, not {case.dtypes}")
        got, grads = (
            [read(item) for item in got],
            [read(grad).astype(np.float32) if half else read(grad) for grad in grads],
        )
    except (kz.Error, TypeError, AttributeError, NotImplementedError, ValueError, IndexError, KeyError) as error:
        if isinstance(error, kz.DataError):
            kz.reset()  # because a launch failed
        return outcome("rejected", f"{type(error).__name__}: {str(error).splitlines()[0]}")
    if len(got) != len(case.outputs):
        return outcome("wrong", f"{len(got)} results, not {len(case.outputs)}")
    relative, absolute = KINDS.get(case.dtype, KINDS["float32"])
    pairs = [
        *zip(got, case.outputs),
        *((g, w if w is not None else np.zeros_like(g)) for g, w in zip(grads, case.grads)),
    ]
    for i, (actual, expected) in enumerate(pairs):
        message = "gradient" if i >= len(got) else "result"
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            return outcome("wrong", f"{message} {actual.dtype}{actual.shape}, not {expected.dtype}{expected.shape}")
        if half:  # the tolerance is relative to the largest element, since terms cancel
            absolute = (
                KINDS[case.dtype][1]
                * max(1, np.nanmax(np.abs(np.where(np.isfinite(expected), expected, 0)), initial=0))
                * (4 if i >= len(got) else 1)
            )
        if not np.allclose(actual, expected, relative, absolute, equal_nan=True):
            differs = np.abs(
                np.where(np.isfinite(actual), actual, 0).astype(float) - np.where(np.isfinite(expected), expected, 0)
            )
            how = f"by {np.max(differs):.3g}" if np.isnan(actual[np.isnan(expected)]).all() else "is NaN in PyTorch"
            return outcome(
                "wrong",
                f"{message} {i} {how}: input={case.args[0]}, args={tuple(case.args[1:])}, kwargs={case.keywords}"[:300],
            )
    return outcome("equal")


def reason(op, text):
    """The reason why an error is allowed, or None if it is not allowed."""
    return next((why for (name, message), why in EXCLUDED.items() if name == op and message in text), None)


def faults(outcomes):
    """The outcomes that differ from PyTorch without a listed reason."""

    def is_fault(one):
        if one.what == "wrong":
            return not any(one.op == name and message in one.text for name, message in DIFFERENT_RESULTS)
        return one.what == "rejected" and reason(one.op, one.text) is None

    return [outcome for outcome in outcomes if is_fault(outcome)]


def store(cases, facts):
    """Writes the cases and facts about them to the file that `stored` reads: a line of JSON, then the bytes of the
    arrays. An array is stored as the first bytes of all elements, then the second bytes of all elements, and so on,
    which compresses better."""
    index, data = [], []

    def array(one):
        data.append(np.frombuffer(one.tobytes(), np.uint8).reshape(-1, one.itemsize).T.tobytes())
        return [one.dtype.str, list(one.shape)]

    for case in cases:
        arrays = {
            name: [None if item is None else array(item) for item in getattr(case, name)]
            for name in ("inputs", "outputs", "grads")
        }
        index.append(case._replace(args=encode(case.args), keywords=encode(case.keywords), **arrays))
    head = json.dumps(facts | {"cases": index}, separators=(",", ":"), allow_nan=False)
    STORED.write_bytes(lzma.compress(head.encode() + b"\n" + b"".join(data), preset=9 | lzma.PRESET_EXTREME))


def stored():
    """Returns the (cases, facts) that `store` wrote."""
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
            name: [None if item is None else array(item) for item in getattr(case, name)]
            for name in ("inputs", "outputs", "grads")
        }
        cases.append(case._replace(args=decode(case.args), keywords=decode(case.keywords), **arrays))
    return cases, facts


def encode(value):
    """Encodes a value for JSON. A value of a type that JSON lacks becomes a dict with one key, the name of the type."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": str(value)}
    if isinstance(value, complex):
        return {"complex": str(value)}
    if isinstance(value, Slot):
        return {"slot": value.number}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, slice):
        return {"slice": [encode(item) for item in (value.start, value.stop, value.step)]}
    if value is ...:
        return {"...": 0}
    if isinstance(value, dict):
        return {"dict": [[key, encode(item)] for key, item in value.items()]}
    raise TypeError(f"an argument of type {type(value).__name__} cannot be stored")


def decode(value):
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, one),) = value.items()
    make = {
        "float": float,
        "complex": complex,
        "slot": Slot,
        "tuple": lambda items: tuple(map(decode, items)),
        "slice": lambda items: slice(*map(decode, items)),
        "...": lambda _: ...,
        "dict": lambda items: {key: decode(item) for key, item in items},
    }
    return make[kind](one)
