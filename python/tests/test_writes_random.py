"""Random programs of views, writes and reads equal the same programs with NumPy arrays, whose views share memory."""

import os

import numpy as np
import pytest

import karez as kz

DRAWS = 10000 if os.environ.get("KAREZ_ALL") else 40
STEPS = 30


def random_slice(rng, size):
    first, last = sorted(rng.integers(0, size + 1, 2))
    step = int(rng.choice([1, 1, 1, 2, 3, -1, -2]))
    return slice(int(first), int(last), step) if step > 0 else slice(int(last) - 1 if last else None, None, step)


def random_index(rng, shape):
    """An index of integers, slices, None and `...`, which gives a view."""
    entries = [
        random_slice(rng, size) if size == 0 or rng.random() < 0.6 else int(rng.integers(-size, size)) for size in shape
    ]
    entries = entries[: rng.integers(0, len(entries) + 1)]
    if rng.random() < 0.2:
        entries.insert(int(rng.integers(0, len(entries) + 1)), None)
    if rng.random() < 0.2:
        entries.append(...)
    return tuple(entries)


def random_arrays_index(rng, shape):
    """An index with arrays of integers or a mask."""
    if rng.random() < 0.4:
        dims = int(rng.integers(1, len(shape) + 1))
        return (rng.random(shape[:dims]) < 0.4,)
    width = int(rng.integers(1, 4))
    entries = [rng.integers(-size, size, width) if rng.random() < 0.6 else random_slice(rng, size) for size in shape]
    return tuple(entries[: rng.integers(1, len(entries) + 1)])


def values(rng, shape):
    return rng.integers(-3, 4, shape).astype(np.float32)


def one_step(rng, pairs):
    """Performs a random operation on one of the pairs (tensor, array), which may append a view as a new pair."""
    x, a = pairs[rng.integers(len(pairs))]
    kind = rng.choice(["index", "permute", "reshape", "flat", "add", "mul", "set", "set", "arrays", "fill", "copy"])
    if kind == "index":
        index = random_index(rng, a.shape)
        pairs.append((x[index], a[index if ... in index else (*index, ...)]))  # `...` makes NumPy return a view
    elif kind == "permute":
        order = rng.permutation(a.ndim)
        pairs.append((x.permute(*map(int, order)), a.transpose(order)))
    elif kind in ("reshape", "flat"):
        shape = (-1,) if kind == "flat" else (2, -1) if a.size % 2 == 0 and a.size else (-1, 1)
        if a.size:
            pairs.append((x.reshape(*shape), a.reshape(shape)))
    elif kind == "add":
        number = int(rng.integers(-2, 3))
        x += number
        a += number
    elif kind == "mul":
        row = values(rng, a.shape[a.ndim - 1 :])
        x *= kz.tensor(row)
        a *= row
    elif kind == "set":
        index = random_index(rng, a.shape)
        shape = np.shape(a[index])
        value = values(rng, shape[rng.integers(0, len(shape) + 1) :])
        x[index] = kz.tensor(value)
        a[index] = value
    elif kind == "arrays" and a.ndim and a.size:
        index = random_arrays_index(rng, a.shape)
        if sum(isinstance(i, np.ndarray) for i in index) and len(pairs) < 30:
            value = values(rng, np.shape(a[index]) if rng.random() < 0.5 else ())
            x[index] = kz.tensor(value)
            a[index] = value
    elif kind == "fill":
        x.fill_(3)
        a.fill(3)
    elif kind == "copy" and a.ndim:
        x.copy_(x.flip(0))
        a[...] = a[::-1].copy()


def run(seed, tensors, check):
    rng = np.random.default_rng(seed)
    shapes = [(3, 4), (2, 3, 2), (5,)]
    arrays = [values(rng, shape) for shape in shapes]
    pairs = [(make, a) for make, a in zip(tensors(arrays), arrays)]
    for _ in range(STEPS):
        one_step(rng, pairs)
        if check and rng.random() < 0.1:
            x, a = pairs[rng.integers(len(pairs))]
            np.testing.assert_array_equal(x.numpy(), a, err_msg=f"seed {seed}")
    return pairs


@pytest.mark.parametrize("seed", range(DRAWS))
def test_a_random_program_outside_of_functions_equals_numpy(seed):
    for x, a in run(seed, lambda arrays: map(kz.tensor, arrays), True):
        np.testing.assert_array_equal(x.numpy(), a, err_msg=f"seed {seed}")


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize("mesh", [None, {"data": 3}])
def test_a_random_program_in_a_compiled_function_equals_numpy(seed, mesh):
    expected = []

    @kz.compile(mesh=None if mesh is None else kz.Mesh(**mesh))
    def program(*arguments):
        pairs = run(seed, lambda _: [argument * 1 for argument in arguments], False)
        expected[:] = [a.copy() for _, a in pairs]
        return [x for x, _ in pairs]

    rng = np.random.default_rng(seed)
    results = program(*[values(rng, shape) for shape in [(3, 4), (2, 3, 2), (5,)]])
    for x, a in zip(results, expected):
        np.testing.assert_array_equal(x.numpy(), a, err_msg=f"seed {seed}")
