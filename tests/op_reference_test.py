"""Every op of every kernel row against NumPy: an independent reference, computed in the run."""

# builds: op_values
import json
import math
import os
import pathlib
import subprocess

import numpy as np
import pytest

pytestmark = pytest.mark.xdist_group("op_reference")  # its fixtures are costly

root = pathlib.Path(__file__).resolve().parent.parent
np.seterr(all="ignore")  # special values are the point
erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def phi(x):  # the normal distribution function
    return erfc(-x / math.sqrt(2)) / 2


def gelu(x):
    return np.where(x == -np.inf, -0.0, x * phi(x))  # the limit


def gelu_grad(x, dy):
    bell = np.where(np.isinf(x), 0, x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))
    return dy * (phi(x) + bell)


def gelu_tanh(x):
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.where(x == -np.inf, -0.0, x * sigmoid(2 * u))  # (1 + tanh(u)) / 2


def gelu_tanh_grad(x, dy):
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    bell = np.where(np.abs(x) > 100, 0, x * sigmoid(2 * u) * sigmoid(-2 * u) * 2 * slope)
    return dy * (sigmoid(2 * u) + np.where(np.isnan(x), x, bell))


def silu(x):
    return np.where(x == -np.inf, -0.0, x * sigmoid(x))


def silu_grad(x, dy):
    bell = np.where(np.isinf(x), 0, x * sigmoid(x) * sigmoid(-x))
    return dy * (sigmoid(x) + bell)


def maximum(x, y):
    """NumPy's, which hands NaN on; of two zeros +0 is the larger, as in IEEE 754-2019."""
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y)) if x.dtype.kind == "f" else np.maximum(x, y)


def minimum(x, y):
    return -maximum(-x, -y) if x.dtype.kind == "f" else np.minimum(x, y)


def relu(x):
    return np.where(x <= 0, 0, x)


def extreme_grad(worse):
    return lambda x, y, dy: np.where(worse(x, y), 0, np.where(x == y, 0.5 * dy, dy))  # beside a NaN all of it


def divide(x, y):
    if x.dtype.kind == "f":
        return x / y
    quotient = np.array(
        [abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(x.flat, y.flat)], dtype=object
    )
    bits = 8 * x.itemsize  # towards zero; the one quotient that does not fit wraps
    return np.array([(q + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for q in quotient], x.dtype).reshape(x.shape)


def cast(x, to):
    """To integers: towards zero, to the nearest that there is, 0 for NaN. Integers wrap."""
    if x.dtype.kind == "f" and np.dtype(to).kind == "i":
        least, most = np.iinfo(to).min, np.iinfo(to).max
        inside = (x > float(least)) & (x < float(most))
        return np.where(
            inside, np.where(inside, x, 0).astype(to), np.where(x > 0, most, np.where(x < 0, least, 0))
        ).astype(to)
    return x.astype(to)


# Pointwise ops; gradients by their own formulas, with operands in the order that karez/ops/pointwise.cc gives them.
pointwise = {
    "neg": lambda x: -x,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "sqrt_grad": lambda dy, r: dy / (2 * r),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rsqrt_grad": lambda r, dy: -0.5 * r**3 * dy,
    "tanh": np.tanh,
    "tanh_grad": lambda r, dy: dy * (1 - r**2),
    "sigmoid": sigmoid,
    "sigmoid_grad": lambda r, dy: dy * r * (1 - r),
    "relu": relu,
    "relu_grad": lambda r, dy: np.where(r <= 0, 0, dy),
    "gelu": gelu,
    "gelu_grad": gelu_grad,
    "gelu_tanh": gelu_tanh,
    "gelu_tanh_grad": gelu_tanh_grad,
    "silu": silu,
    "silu_grad": silu_grad,
    "erf": erf,
    "erf_grad": lambda x, dy: dy * 2 / math.sqrt(math.pi) * np.exp(-(x**2)),
    "abs": np.abs,
    "abs_grad": lambda x, dy: np.nan_to_num(np.sign(x)) * dy,  # 0 at NaN, as in PyTorch
    "sin": np.sin,
    "sin_grad": lambda x, dy: dy * np.cos(x),
    "cos": np.cos,
    "cos_grad": lambda x, dy: -dy * np.sin(x),
    "stop_gradient": lambda x: x,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": divide,
    "div_grad": lambda dy, r, y: -dy * r / y,
    "pow": np.power,
    "pow_grad": lambda y, x, dy: np.where(y == 0, 0, y * x ** (y - 1)) * dy,
    "pow_grad2": lambda x, r, dy: np.where(x == 0, 0, np.log(x) * r) * dy,
    "max": maximum,
    "max_grad": extreme_grad(np.less),
    "min": minimum,
    "min_grad": extreme_grad(np.greater),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "select": np.where,
    "select_grad": lambda c, dy: np.where(c, dy, 0),
    "select_grad2": lambda c, dy: np.where(c, 0, dy),
}
free_forms = {
    "select(x1 < 0, select(x0 == 1, 1, select(x0 == -1, 1 - 2 * bitand(x1, 1), 0)), pow(x0, max(x1, 0)))": lambda x, y: (
        np.array(
            [p**q if q >= 0 else 0 if p == 0 else int(p**q) for p, q in zip(x.ravel().tolist(), y.ravel().tolist())]
        ).reshape(x.shape)
    ),
    "select(x2, x0 * x1, x0 - tanh(x1))": lambda x, y, c: np.where(c, x * y, x - np.tanh(y)),
    "x0 * x1 - x2 / 3": lambda x, y, z: x * y - z / 3,
}
dtypes = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_}


def constant(a):
    dtype = dtypes[a["dtype"]]
    if "data" in a:
        return np.frombuffer(bytes.fromhex(a["data"]), dtype).reshape(a["shape"])
    return np.full(a["shape"], a["value"], dtype)


def iota(a):
    along = [1] * len(a["shape"])
    along[a["axis"]] = -1
    return np.broadcast_to(np.arange(a["shape"][a["axis"]]).reshape(along), a["shape"])


def philox_word(seed, stream, element):
    """Philox4x32-10 as in Salmon et al. 2011, on Python's integers."""
    counter = [element // 4 & 0xFFFFFFFF, element // 4 >> 32, stream & 0xFFFFFFFF, stream >> 32]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [p1 >> 32 ^ counter[1] ^ key[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ counter[3] ^ key[1], p0 & 0xFFFFFFFF]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return counter[element % 4]


def hash_words(*words):
    """FNV-1a over the bytes of 64-bit words, then the finaliser of MurmurHash3."""
    mask = 2**64 - 1
    h = 0xCBF29CE484222325
    for word in words:
        for byte in word.to_bytes(8, "little"):
            h = (h ^ byte) * 0x100000001B3 & mask
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & mask
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & mask
    return h ^ h >> 33


def random_uniform(a, state):
    seed, step = (int(x) for x in state)
    count = math.prod(a["shape"])
    words = np.array([philox_word(seed, hash_words(a["site"], step), e) for e in range(count)], np.uint64)
    unit = (words >> np.uint64(8)) / 2**24 if a["dtype"] == "f32" else words / 2**32
    return unit.reshape(a["shape"])


def fused(product, channel):
    """With a bias along one dimension and ReLU behind, where the call has them."""

    def run(a, x, w, bias=None):
        y = product(a, x, w)
        if bias is not None:
            y = y + bias.reshape([-1 if d == channel % y.ndim else 1 for d in range(y.ndim)])
        return relu(y) if a.get("relu") else y

    return run


def matmul(a, x, w):
    x = x.swapaxes(-1, -2) if a.get("transpose_a") else x
    w = w.swapaxes(-1, -2) if a.get("transpose_b") else w
    return np.matmul(x, w)


def windows(x, kernel, stride, padding, dilation=(1, 1), fill=0.0):
    """[n, c, p, q, r, s]: what each tap of each window reads."""
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2), constant_values=fill)
    p, q = ((x.shape[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in (0, 1))
    out = np.empty(x.shape[:2] + (p, q) + tuple(kernel), x.dtype)
    for r in range(kernel[0]):
        for s in range(kernel[1]):
            h, w = r * dilation[0], s * dilation[1]
            out[..., r, s] = x[
                :, :, h : h + (p - 1) * stride[0] + 1 : stride[0], w : w + (q - 1) * stride[1] + 1 : stride[1]
            ]
    return out


def unwindows(taps, shape, stride, padding, dilation=(1, 1)):
    """The transpose of `windows`: adds each tap to the pixel that it reads."""
    n, c, h, w = shape
    x = np.zeros((n, c, h + 2 * padding[0], w + 2 * padding[1]))
    p, q, kernel_h, kernel_w = taps.shape[2:]
    for r in range(kernel_h):
        for s in range(kernel_w):
            i, j = r * dilation[0], s * dilation[1]
            x[:, :, i : i + (p - 1) * stride[0] + 1 : stride[0], j : j + (q - 1) * stride[1] + 1 : stride[1]] += taps[
                ..., r, s
            ]
    return x[:, :, padding[0] : padding[0] + h, padding[1] : padding[1] + w]


def conv2d(a, x, w):
    """Padding adds nothing, whatever it would be multiplied by."""
    taps, inside = (
        windows(v, w.shape[2:], a["stride"], a["padding"], a["dilation"])[:, None] for v in (x, np.ones_like(x))
    )
    return np.where(inside, taps * w[:, :, None, None], 0).sum((2, 5, 6))


def conv2d_grad_input(a, dy, w):
    return unwindows(np.einsum("nopq,ocrs->ncpqrs", dy, w), a["shape"], a["stride"], a["padding"], a["dilation"])


def conv2d_grad_weight(a, x, dy):
    taps, inside = (
        windows(v, a["kernel"], a["stride"], a["padding"], a["dilation"])[:, None] for v in (x, np.ones_like(x))
    )
    return np.where(inside, taps * dy[:, :, None, :, :, None, None], 0).sum((0, 3, 4))


def in_groups(whole, axis):
    """Of each group of channels its own convolution, one behind the other."""

    def op(a, *x):
        groups = a.get("groups", 1)
        cuts = [np.split(v, groups, axis=1 if v is not x[1] or whole == conv2d_grad_weight else 0) for v in x]
        own = {**a, "shape": [a["shape"][0], a["shape"][1] // groups, *a["shape"][2:]]} if "shape" in a else a
        return np.concatenate([whole(own, *part) for part in zip(*cuts)], axis)

    return op


def max_pool(a, x):
    taps = windows(x, a["kernel"], a["stride"], a["padding"], fill=-np.inf)
    taps = taps.reshape(taps.shape[:4] + (-1,))
    return taps.max(-1), taps.argmax(-1)


def max_pool_grad(a, dy, index):
    taps = math.prod(a["kernel"])
    hits = np.where(index[..., None] == np.arange(taps), dy[..., None], 0)
    return unwindows(hits.reshape(dy.shape + tuple(a["kernel"])), a["shape"], a["stride"], a["padding"])


def avg_pool(a, x):
    return windows(x, a["kernel"], a["stride"], a["padding"]).mean((-1, -2))


def avg_pool_grad(a, dy):
    taps = np.broadcast_to(dy[..., None, None] / math.prod(a["kernel"]), dy.shape + tuple(a["kernel"]))
    return unwindows(taps, a["shape"], a["stride"], a["padding"])


def broadcast(a, x):
    return np.broadcast_to(
        x.reshape([a["shape"][d] if d in a["dims"] else 1 for d in range(len(a["shape"]))]), a["shape"]
    )


def gather(a, table, index):
    inside = (index >= 0) & (index < len(table))
    rows = table[np.where(inside, index, 0)]
    return np.where(inside.reshape(inside.shape + (1,) * (table.ndim - 1)), rows, 0)


def scatter_add(a, index, updates):
    out = np.zeros((a["rows"],) + updates.shape[index.ndim :])
    inside = (index >= 0) & (index < a["rows"])
    np.add.at(out, index[inside], updates[inside])
    return out


def cumsum(a, x):
    return (
        np.flip(np.cumsum(np.flip(x, a["axis"]), a["axis"]), a["axis"]) if a.get("reverse") else np.cumsum(x, a["axis"])
    )


def sort(a, x):
    """Stable, NaN as the largest: from the largest on is from the smallest on of the reverse, in reverse."""
    axis = a["axis"]
    if a.get("descending"):
        places = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        places = np.argsort(x, axis, kind="stable")
    places = np.take(places, np.arange(a.get("first", x.shape[axis])), axis)
    return np.take_along_axis(x, places, axis), places


def add_along(a, index, updates):
    shape = list(updates.shape)
    shape[a["axis"]] = a["size"]
    out, where = np.zeros(shape), list(np.indices(index.shape))
    where[a["axis"]] = index
    np.add.at(out, tuple(where), updates)
    return out


def sgd(a, w, m, g, lr):
    g = g + a.get("weight_decay", 0) * w
    m = a["momentum"] * m + g
    return w - lr * (g + a["momentum"] * m if a.get("nesterov") else m), m


def adam(a, w, m, v, g, lr, step):
    decay, step = a.get("weight_decay", 0), float(step)
    if a.get("decoupled"):
        w = w * (1 - lr * decay)
    elif decay != 0:  # zero times a NaN weight must not reach the moments
        g = g + decay * w
    m = a["beta1"] * m + (1 - a["beta1"]) * g
    v = a["beta2"] * v + (1 - a["beta2"]) * g**2
    m_hat, v_hat = m / (1 - a["beta1"] ** step), v / (1 - a["beta2"] ** step)
    return w - lr * m_hat / (np.sqrt(v_hat) + a["eps"]), m, v


def conditional(step, states):
    return lambda a, *x: step(a, *x[:-1]) if x[-1] else x[:states]


others = {
    "constant": constant,
    "iota": iota,
    "random_uniform": random_uniform,
    "pointwise": lambda a, *x: free_forms[a["expr"]](*x),
    "cast": lambda a, x: cast(x, dtypes[a["to"]]),
    "assign": lambda a, old, x: x,
    "copy": lambda a, x: x,
    "layout": lambda a, x: x,
    "matmul": fused(matmul, -1),
    "conv2d": fused(in_groups(conv2d, 1), 1),
    "conv2d_grad_input": in_groups(conv2d_grad_input, 1),
    "conv2d_grad_weight": in_groups(conv2d_grad_weight, 0),
    "max_pool": max_pool,
    "max_pool_grad": max_pool_grad,
    "avg_pool": avg_pool,
    "avg_pool_grad": avg_pool_grad,
    "reduce_sum": lambda a, x: x.sum(tuple(a["axes"])),
    "reduce_max": lambda a, x: x.max(tuple(a["axes"])),
    "reduce_min": lambda a, x: x.min(tuple(a["axes"])),
    "broadcast": broadcast,
    "reshape": lambda a, x: x.reshape(a["shape"]),
    "transpose": lambda a, x: x.transpose(a["perm"]),
    "slice": lambda a, x: x[tuple(slice(b, b + n) for b, n in zip(a["begin"], a["size"]))],
    "concat": lambda a, *x: np.concatenate(x, a["axis"]),
    "pad": lambda a, x: np.pad(x, list(zip(a["low"], a["high"])), constant_values=a["value"]),
    "gather": gather,
    "scatter_add": scatter_add,
    "cumsum": cumsum,
    "sort": sort,
    "take_along": lambda a, x, index: np.take_along_axis(x, index, a["axis"]),
    "add_along": add_along,
    "one_hot": lambda a, x: x[..., None] == np.arange(a["depth"]),
    "arg_max": lambda a, x: x.argmax(a["axis"]),
    "sgd": sgd,
    "adam": adam,
    "sgd_if": conditional(sgd, 2),
    "adam_if": conditional(adam, 3),
}
# Sums of products of operands: their rounding is measured by the same sum of absolute values.
sums = {
    "matmul",
    "conv2d",
    "conv2d_grad_input",
    "conv2d_grad_weight",
    "avg_pool",
    "avg_pool_grad",
    "max_pool_grad",
    "reduce_sum",
    "scatter_add",
    "cumsum",
    "add_along",
}
updates = {"sgd": 2, "adam": 3, "sgd_if": 2, "adam_if": 3}  # results that are operands again


def reference(op, attrs, inputs, steps=1):
    """The op's results in float64 (or its integers), as a list."""
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs]
    for step in range(steps):
        if step > 0:
            wide = list(out) + wide[len(out) :]
            wide = [x + 1 if x.dtype == np.int64 else x for x in wide]
        out = pointwise[op](*wide) if op in pointwise else others[op](attrs, *wide)
        out = out if isinstance(out, tuple) else (out,)
    return out


# How many units in the last place a row may be off at special values, in f32 and f64. Rows that compute f32 in double round once; the numbers are
# those of the fast ones. What is not here is exact. In gradients the result of the forward op is an operand, so its own error does not count.
ulps = {
    "exp": (2, 2),
    "log": (2, 2),
    "sqrt": (1, 1),
    "rsqrt": (2, 2),
    "tanh": (4, 2),
    "sigmoid": (4, 3),
    "silu": (6, 4),
    "silu_grad": (12, 8),
    "erf": (3, 2),
    "pow": (2, 2),
    "add": (1, 1),
    "sub": (1, 1),
    "mul": (1, 1),
    "div": (1, 1),
    "div_grad": (2, 2),
    "sqrt_grad": (2, 2),
    "rsqrt_grad": (4, 4),
    "tanh_grad": (3, 3),
    "sigmoid_grad": (3, 3),
    "max_grad": (1, 1),
    "min_grad": (1, 1),
}
# x^2 and x / sqrt(2) are rounded before they are exponents: so many more for each unit of x^2.
exponents = {
    "gelu": (8, 4, 0, 2),
    "gelu_grad": (8, 4, 2, 2),
    "erf_grad": (4, 4, 2, 2),
    "gelu_tanh": (8, 4, 2, 2),
    "gelu_tanh_grad": (16, 8, 8, 8),
}
# Of these a bound on the error itself, in units of the last place of 1: relative to results near 0 it is not bounded.
absolute = {"sin": (4, 2), "cos": (4, 2), "sin_grad": (8, 4), "cos_grad": (8, 4)}
# y - 1 is rounded before it is an exponent, log(x) before it is a factor.
powers = {"pow_grad", "pow_grad2"}


def tolerance(op, inputs, want):
    """The greatest error of each element of `want` (already of the kernel's dtype)."""
    which = 0 if want.dtype == np.float32 else 1
    unit = 2 * np.spacing(np.abs(want) / 2)  # of the largest number, too
    if op in exponents:
        square = np.minimum(inputs[0].astype(np.float64) ** 2, 1500)
        return unit * (exponents[op][which] + exponents[op][2 + which] * square)
    if op in absolute:
        return absolute[op][which] * np.finfo(want.dtype).eps * (np.abs(inputs[-1]) if op.endswith("grad") else 1)
    if op in powers:
        return unit * (64 if which == 0 else 800)
    least = (
        np.finfo(want.dtype).smallest_subnormal * np.abs(np.clip(inputs[0], -800, 800)) if op.startswith("silu") else 0
    )  # a factor is subnormal first
    return unit * ulps.get(op, (0, 0))[which] + least


def unclaimed(op, row, inputs, got, want):
    """Elements of which nothing is claimed, since a number on the way to them is beyond what the dtype holds, or the library pads with zeros."""
    kind = np.finfo(got.dtype)
    if op in updates:  # what a step adds to or multiplies overflows, or the square of the gradient
        large = [np.isfinite(x) & (np.abs(x) > kind.max / 1e6) for x in inputs if x.shape == want.shape]
        return np.logical_or.reduce(large) | (op.startswith("adam") and np.abs(inputs[3]) > np.sqrt(kind.max))
    if op == "div_grad":
        return np.abs(want) > kind.max / 4
    if op in powers:  # x^y / x of a subnormal x
        tiny = [(x != 0) & (np.abs(x) < kind.tiny) for x in inputs]
        return np.logical_or.reduce(tiny) | (np.abs(want) < kind.tiny)
    if op == "conv2d_grad_weight" and row.startswith(
        "onednn."
    ):  # padded zeros times infinity are NaN there, and nothing here
        return np.isnan(got) & (not all(np.isfinite(x).all() for x in inputs))
    return False


def check_special(case, folder):
    """As `check`, at special values: NaN where NumPy has it, infinities and zeros with their signs, the rest within units in the last place."""
    op = case["op"]
    inputs = [np.load(folder / name) for name in case["in"]]
    expected = reference(op, case["attrs"], inputs, case["steps"])
    sizes = [magnitude(case, inputs, want) for want in expected] if op not in pointwise else None
    for row, files in case["out"].items():
        assert len(files) == len(expected), f"{row}: {len(files)} results, the reference has {len(expected)}"
        for number, (name, exact) in enumerate(zip(files, expected)):
            got = np.load(folder / name)
            want = np.asarray(exact).astype(got.dtype)
            assert got.shape == want.shape, f"{row}, result {number}: {got.shape} is not {want.shape}"
            if got.dtype.kind != "f":
                wrong = got != want
            else:
                most = (
                    tolerance(op, inputs, want)
                    if op in pointwise
                    else (1e-12 if got.dtype == np.float64 else 2e-6) * sizes[number]
                )
                finite = np.isfinite(want)
                near = np.abs(got.astype(np.float64) - np.where(finite, want, 0)) <= most
                # Where the result just about overflows either answer is one.
                largest = np.finfo(got.dtype).max
                edge = (np.abs(exact) > largest * (1 - 1e-5)) & (np.abs(exact) < largest * (1 + 1e-5)) & np.isinf(got)
                wrong = ~np.where(np.isnan(want), np.isnan(got), np.where(finite, near | edge, got == want))
                if op in signed_zeros:
                    wrong |= (want == 0) & (np.signbit(want) != np.signbit(got))
                wrong &= ~np.asarray(unclaimed(op, row, inputs, got, want), bool)
            if not wrong.any():
                continue
            at = [x[wrong][:4] if x.shape == wrong.shape else "..." for x in inputs]
            raise AssertionError(
                f"{row}, result {number}: {got[wrong][:4]} is not {want[wrong][:4]} at {at}, {wrong.sum()} of {wrong.size} differ"
            )


signed_zeros = {"max", "min", "relu", "neg", "abs", "stop_gradient", "select", "exp", "tanh", "sigmoid", "erf", "sqrt", "copy", "assign", "reshape",
                "transpose", "slice", "concat", "pad", "broadcast", "gather"}  # fmt: skip


def magnitude(case, inputs, expected):
    if case["op"] not in sums:
        return np.maximum(np.abs(expected), 1)
    keep = 1 if case["op"] == "max_pool_grad" else len(inputs)  # not the index
    absolute = [np.abs(x) if i < keep and x.dtype.kind == "f" else x for i, x in enumerate(inputs)]
    return np.maximum(reference(case["op"], case["attrs"], absolute)[0], 1e-30)


def check(case, folder):
    inputs = [np.load(folder / name) for name in case["in"]]
    expected = reference(case["op"], case["attrs"], inputs, case["steps"])
    for row, files in case["out"].items():
        assert len(files) == len(expected), f"{row}: {len(files)} results, the reference has {len(expected)}"
        for number, (name, want) in enumerate(zip(files, expected)):
            got = np.load(folder / name)
            assert got.shape == want.shape, f"{row}, result {number}: {got.shape} is not {want.shape}"
            if got.dtype.kind != "f":
                assert np.array_equal(got, want), f"{row}, result {number}: {got} is not {want}"
                continue
            bound = (1e-12 if got.dtype == np.float64 else 2e-6) * magnitude(case, inputs, want)
            wrong = ~(np.abs(got - want) <= bound)
            assert not wrong.any(), (
                f"{row}, result {number}: {got[wrong][:4]} is not {want[wrong][:4]}, {wrong.sum()} of {wrong.size} differ"
            )


@pytest.fixture(scope="session")
def values(tmp_path_factory):
    tool = root / os.environ.get("KAREZ_BUILD", "build") / "tools" / "op_values"
    assert tool.exists(), f"{tool} is missing: build it first, or name the build folder in KAREZ_BUILD"
    folder = tmp_path_factory.mktemp("op_values")
    seed = os.environ.get("KAREZ_SEED", str(int.from_bytes(os.urandom(4), "little")))
    print(f"KAREZ_SEED={seed}")
    subprocess.run([tool, folder, seed], check=True)
    return folder


def test_every_op_agrees_with_numpy(values):
    cases = json.loads((values / "cases.json").read_text())["cases"]
    faults = []
    for case in cases:
        if case["op"] not in pointwise and case["op"] not in others:
            faults.append(f"{case['name']}: no reference is written for '{case['op']}'")
            continue
        try:
            (check_special if case["special"] else check)(case, values)
        except Exception as error:  # all faults of a run are shown, not the first
            faults.append(f"{case['name']} ({case['steps']} steps): {error}")
    assert not faults, "\n".join(faults)
    print(f"{len(cases)} cases, {sum(len(c['out']) for c in cases)} results of kernels")
    assert len(cases) > 150
    special = [c for c in cases if c["special"]]
    assert {c["op"] for c in special} >= set(pointwise) - {"and", "or", "not"}
    assert len(special) > 700 and sum("relu" in c["attrs"] for c in special) > 100


def test_the_reference_sees_a_wrong_value(values):
    cases = json.loads((values / "cases.json").read_text())["cases"]
    case = next(c for c in cases if c["op"] == "matmul" and not c["special"])
    name = next(iter(case["out"].values()))[0]
    right = np.load(values / name)
    wrong = right.copy()
    wrong.flat[0] += 1e-5
    np.save(values / name, wrong)
    with pytest.raises(AssertionError, match="is not"):
        check(case, values)
    np.save(values / name, right)


def test_the_reference_sees_a_lost_nan_and_a_naive_formula(values):
    """One wrong element at a time: a NaN that became 0, an overflow where the answer is finite, a zero of the wrong sign, and a few ulps too many."""
    cases = json.loads((values / "cases.json").read_text())["cases"]

    def spoiled(op, find, value):
        case = next(
            c
            for c in cases
            if c["op"] == op and c["special"] and any("hwy" in row or "onednn" in row for row in c["out"]) and find(c)
        )
        row = next(row for row in case["out"] if "hwy" in row or "onednn" in row)
        right = np.load(values / case["out"][row][0])
        x = np.load(values / case["in"][0])
        wrong = right.copy()
        at = value(x, right)
        wrong.flat[at[0]] = at[1]
        np.save(values / case["out"][row][0], wrong)
        with pytest.raises(AssertionError, match="is not"):
            check_special(case, values)
        np.save(values / case["out"][row][0], right)
        check_special(case, values)

    anyone, first = lambda c: True, lambda mask: int(np.flatnonzero(mask)[0])
    spoiled("relu", anyone, lambda x, y: (first(np.isnan(x)), 0))
    spoiled("sigmoid", anyone, lambda x, y: (first(x == -100), 0))
    spoiled("max", anyone, lambda x, y: (first((y == 0) & ~np.signbit(y)), -0.0))
    spoiled("tanh", anyone, lambda x, y: (first(x == 0.5), np.float32(np.tanh(0.5) * (1 + 1e-6))))
    spoiled(
        "matmul",
        lambda c: "relu" in c["attrs"] and np.isnan(np.load(values / c["in"][0])).any(),
        lambda x, y: (first(np.isnan(y)), 0),
    )
