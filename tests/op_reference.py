"""NumPy's version of every op, forward and gradient."""

import math

import numpy as np

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
    density = np.where(np.isinf(x), 0, x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))
    return dy * (phi(x) + density)


def gelu_tanh(x):
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.where(x == -np.inf, -0.0, x * sigmoid(2 * u))  # (1 + tanh(u)) / 2


def gelu_tanh_grad(x, dy):
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    density = np.where(np.abs(x) > 100, 0, x * sigmoid(2 * u) * sigmoid(-2 * u) * 2 * slope)
    return dy * (sigmoid(2 * u) + np.where(np.isnan(x), x, density))


def silu(x):
    return np.where(x == -np.inf, -0.0, x * sigmoid(x))


def silu_grad(x, dy):
    density = np.where(np.isinf(x), 0, x * sigmoid(x) * sigmoid(-x))
    return dy * (sigmoid(x) + density)


def maximum(x, y):
    """NumPy's maximum, which propagates NaN; +0 is larger than -0, as in IEEE 754-2019."""
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y)) if x.dtype.kind == "f" else np.maximum(x, y)


def minimum(x, y):
    return -maximum(-x, -y) if x.dtype.kind == "f" else np.minimum(x, y)


def relu(x):
    return np.where(x <= 0, 0, x)


def extreme_grad(worse):
    return lambda x, y, dy: np.where(worse(x, y), 0, np.where(x == y, 0.5 * dy, dy))  # dy if one is NaN


def divide(x, y):
    if x.dtype.kind == "f":
        return x / y
    quotient = np.array(
        [abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(x.flat, y.flat)], dtype=object
    )
    bits = 8 * x.itemsize  # towards zero; the only quotient that overflows wraps
    return np.array([(q + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for q in quotient], x.dtype).reshape(x.shape)


def cast(x, to):
    """Floats to integers: towards zero, clipped to the range, 0 for NaN. Integers wrap."""
    if x.dtype.kind == "f" and np.dtype(to).kind == "i":
        least, most = np.iinfo(to).min, np.iinfo(to).max
        inside = (x > float(least)) & (x < float(most))
        return np.where(
            inside, np.where(inside, x, 0).astype(to), np.where(x > 0, most, np.where(x < 0, least, 0))
        ).astype(to)
    return x.astype(to)


# Pointwise ops; gradients have their own formulas, with operands in the order of karez/ops/pointwise.cc.
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
    """Philox4x32-10 (Salmon et al. 2011) with Python integers."""
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
    """The op with a bias along one dimension and then ReLU, if the call has them."""

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
    """[n, c, p, q, r, s]: the pixel that each tap of each window reads."""
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
    """Padding adds nothing, even if the weight is infinite or NaN."""
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
    """The op on each group of channels; the results are concatenated."""

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
    """A stable sort with NaN as the largest; a descending sort is the reverse of an ascending sort of the reversed input."""
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


# Sums of products of operands, whose rounding errors are relative to the same sum of absolute values.
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


updates = {"sgd": 2, "adam": 3, "sgd_if": 2, "adam_if": 3}  # results that are operands of the next step


def reference(op, attrs, inputs, steps=1):
    """The op's results in float64 (or its integers), as a list."""
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs]
    out = ()
    for step in range(steps):
        if step > 0:
            wide = list(out) + wide[len(out) :]
            wide = [x + 1 if x.dtype == np.int64 else x for x in wide]
        out = pointwise[op](*wide) if op in pointwise else others[op](attrs, *wide)
        out = out if isinstance(out, tuple) else (out,)
    return out
