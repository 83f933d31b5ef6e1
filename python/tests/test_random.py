"""Random numbers: seeds, meshes, and bounds of randint."""

import numpy as np
import pytest

import karez as kz


def test_random_numbers_depend_on_seed_and_call_and_not_on_the_mesh():
    def draw(mesh):
        kz.worlds._end()
        kz.init(devices=4, seed=5)
        f = kz.compile(
            lambda: (
                kz.rand(64, 50),
                kz.randn(64, 50, dtype=kz.float64),
                kz.randint(3, 9, (64, 50)),
                kz.bernoulli(kz.full((64, 50), 0.25)),
            ),
            mesh=mesh,
        )
        return [[item.numpy() for item in f()] for _ in range(2)]

    (u, n, i, b), (repeated, *_) = draw("")
    assert (u != repeated).mean() > 0.99 and 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.03
    assert (
        n.dtype == np.float64
        and abs(n.mean()) < 0.1
        and abs(n.std() - 1) < 0.05
        and sorted(np.unique(i)) == [3, 4, 5, 6, 7, 8]
        and abs(b.mean() - 0.25) < 0.05
    )
    for result, expected in zip(draw("data=2,model=2")[0], (u, n, i, b)):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    "arguments, shape, low, high",
    [
        ((9, (64, 5)), (64, 5), 0, 8),
        ((3, 9, (64, 5)), (64, 5), 3, 8),
        ((np.int64(-2), np.int64(2), (300,)), (300,), -2, 1),
        ((4,), (), 0, 3),
    ],
)
def test_randint_takes_bounds_as_in_pytorch(arguments, shape, low, high):
    for options, kind in (({}, np.int64), ({"dtype": kz.int32}, np.int32)):
        numbers = kz.randint(*arguments, **options).numpy()
        assert numbers.shape == shape and numbers.dtype == kind and low <= numbers.min() and numbers.max() <= high
        assert numbers.size < 300 or (numbers.min(), numbers.max()) == (low, high)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ((1, 2.5, (3,)), "the bounds must be integers, got 1 and 2.5"),
        ((1, (2,), (3,)), r"the bounds must be integers, got 1 and \(2,\)"),
        ((4, 4, (2,)), "high must be above low, got low=4 and high=4"),
        ((-2, [3]), "high must be above low, got low=0 and high=-2"),
    ],
)
def test_randint_with_invalid_bounds_is_an_error(arguments, text):
    with pytest.raises(kz.UserError, match="randint: " + text):
        kz.randint(*arguments)
