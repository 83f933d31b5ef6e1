"""NumPy's version of every pointwise op, and of the gradient ops that need an explicit formula."""

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
    "tanh_grad": lambda r, dy: dy * ((1 - r) * (1 + r)),  # 1 - r**2 would lose digits near 1
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


def integer_power(x, y):
    powers = [p**q if q >= 0 else 0 if p == 0 else int(p**q) for p, q in zip(x.ravel().tolist(), y.ravel().tolist())]
    return np.array(powers).reshape(x.shape)


free_forms = {
    "select(x1 < 0, select(x0 == 1, 1, select(x0 == -1, 1 - 2 * bitand(x1, 1), 0)), "
    "pow(x0, max(x1, 0)))": integer_power,
    "select(x2, x0 * x1, x0 - tanh(x1))": lambda x, y, c: np.where(c, x * y, x - np.tanh(y)),
    "x0 * x1 - x2 / 3": lambda x, y, z: x * y - z / 3,
}
