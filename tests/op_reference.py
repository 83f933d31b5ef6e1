"""NumPy's version of every op, forward and gradient."""

import math

import numpy as np
from pointwise_reference import free_forms, pointwise, relu


def cast(x, to):
    """Casts. Floats become integers by rounding towards zero and clipping to the range; NaN becomes 0. Integers wrap
    around on overflow."""
    if x.dtype.kind == "f" and np.dtype(to).kind == "i":
        low, high = np.iinfo(to).min, np.iinfo(to).max
        inside = (x > float(low)) & (x < float(high))
        return np.where(
            inside, np.where(inside, x, 0).astype(to), np.where(x > 0, high, np.where(x < 0, low, 0))
        ).astype(to)
    return x.astype(to)


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
    """Returns the op `product`, followed by a bias along dimension `channel` and by ReLU if the call has them."""

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


def in_groups(op_of_group, axis):
    """Applies the op to each group of channels and concatenates the results."""

    def op(a, *x):
        groups = a.get("groups", 1)
        cuts = [np.split(v, groups, axis=1 if v is not x[1] or op_of_group == conv2d_grad_weight else 0) for v in x]
        group_attrs = {**a, "shape": [a["shape"][0], a["shape"][1] // groups, *a["shape"][2:]]} if "shape" in a else a
        return np.concatenate([op_of_group(group_attrs, *part) for part in zip(*cuts)], axis)

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


def resized(a, x, size, result, sum_axis):
    """Each pixel of the result is a weighted mean of the pixels in the window of the filter around its centre."""
    axis, bicubic = a["axis"], a.get("bicubic", False)
    step, pixel, centre = size / result, np.arange(size), (np.arange(result)[:, None] + 0.5) * (size / result)
    distance, support = np.abs(pixel + 0.5 - centre) / max(step, 1), (2 if bicubic else 1) * max(step, 1)
    near, far = 1.5 * distance**3 - 2.5 * distance**2 + 1, -0.5 * distance**3 + 2.5 * distance**2 - 4 * distance + 2
    weights = np.where(distance < 1, near, np.where(distance < 2, far, 0)) if bicubic else np.maximum(0, 1 - distance)
    inside = (pixel >= np.floor(centre - support + 0.5)) & (pixel < np.floor(centre + support + 0.5))
    weights = weights / np.where(inside, weights, 0).sum(1, keepdims=True)
    if a.get("magnitude"):
        weights = np.abs(weights)
    if sum_axis == 0:
        weights, inside = weights.T, inside.T
    terms = weights * np.moveaxis(x, axis, -1)[..., None, :]
    return np.moveaxis(np.where(inside, terms, 0).sum(-1), -1, axis)


def resize(a, x):
    return resized(a, x, x.shape[a["axis"]], a["size"], 1)


def resize_grad(a, dy):
    return resized(a, dy, a["size"], dy.shape[a["axis"]], 0)


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
    """A stable sort with NaN as the largest; a descending sort is the reverse of an ascending sort of the reversed
    input."""
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
    "resize": resize,
    "resize_grad": resize_grad,
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
    "resize",
    "resize_grad",
}
updates = {"sgd": 2, "adam": 3, "sgd_if": 2, "adam_if": 3}  # number of results that are operands of the next step


def reference(op, attrs, inputs, steps=1):
    """The op's results after `steps` steps, as a tuple: float64, or the op's integers or bools."""
    operands = [x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs]
    out = ()
    for step in range(steps):
        if step > 0:
            operands = list(out) + operands[len(out) :]
            operands = [x + 1 if x.dtype == np.int64 else x for x in operands]
        out = pointwise[op](*operands) if op in pointwise else others[op](attrs, *operands)
        out = out if isinstance(out, tuple) else (out,)
    return out
