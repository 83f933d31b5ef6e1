"""Calls of every public function with random invalid arguments never crash the process."""

import os
import random

import numpy as np

import karez as kz
from karez import F, nn

X = np.ones((4, 6), np.float32)

ODD = [
    None,
    0,
    -1,
    2**63,
    2**64,
    float("nan"),
    float("inf"),
    -0.0,
    1e300,
    "",
    "x",
    b"x",
    [],
    [1],
    [2**63],
    [-1],
    (),
    {},
    {"a": 1},
    object(),
    print,
    True,
    np.float64(2),
    np.zeros(0),
    np.zeros((2, 3)),
    np.zeros((2, 3), int),
    np.array(["a"]),
    np.zeros((0, 4)),
    ["a"],
    [[1], [1, 2]],
    kz.float32,
    int,
    slice(None),
    ...,
]


def public():
    for where, names in (
        (
            kz,
            [
                name
                for module in (
                    kz.functions,
                    kz.pointwise,
                    kz.rounding,
                    kz.manipulation,
                    kz.products,
                    kz.reductions,
                    kz.random,
                    kz.searching,
                    kz.selection,
                    kz.storage_functions,
                    kz.unique_values,
                )
                for name in module.__all__
            ]
            + ["scan", "tensor"],
        ),
        (F, F.__all__),
        (kz.nn.init, ["uniform", "normal", "constant", "value"]),
        (kz.optim, kz.optim.__all__),
        (nn, [n for n in dir(nn) if n[0].isupper()]),
        (kz, ["Mesh", "P", "grad", "value_and_grad", "compile"]),
    ):
        for name in names:
            if callable(getattr(where, name)) and name not in ("Extreme", "Sorted"):
                yield f"{where.__name__}.{name}", getattr(where, name)


def test_bad_calls_never_crash():
    draw = random.Random(7)
    functions = dict(public())
    assert len(functions) > 120
    calls = 1000 if os.environ.get("KAREZ_ALL") else 140

    def body(x):
        candidates = [*ODD, x, x, x.sum(), x > 0, x.long()]
        for _name, function in functions.items():
            for _ in range(calls):
                args = [draw.choice(candidates) for _ in range(draw.randrange(5))]
                keywords = (
                    {draw.choice(["dim", "dtype", "keepdim", "eps", "p", "weight", "nothing"]): draw.choice(candidates)}
                    if draw.random() < 0.3
                    else {}
                )
                try:
                    function(*args, **keywords)
                except Exception:
                    pass
        for method in [m for m in dir(x) if not m.startswith("_")]:
            for _ in range(calls if callable(getattr(type(x), method)) else 0):
                try:
                    getattr(x, method)(*[draw.choice(candidates) for _ in range(draw.randrange(4))])
                except Exception:
                    pass
        return x + 1

    np.testing.assert_array_equal(kz.compile(body)(X).numpy(), X + 1)
