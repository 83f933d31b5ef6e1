"""Batches of arrays: each row occurs once per epoch, the seed determines the order, and each batch has a number."""

import numpy as np
import pytest

import karez as kz

X, Y = np.arange(50).reshape(25, 2), np.arange(25)


def test_every_row_occurs_once_per_epoch_with_its_label():
    batches = kz.data.Batches(X, Y, batch=4, drop_last=False)
    batches_seen = [(x, y) for x, y in batches]
    assert [len(y) for _, y in batches_seen] == [4] * 6 + [1] and len(batches) == 7
    assert sorted(np.concatenate([y for _, y in batches_seen])) == list(range(25))
    for x, y in batches_seen:
        np.testing.assert_array_equal(x, X[y])


def test_orders_depend_on_seed_and_epoch():
    order = lambda epoch, **options: np.concatenate(list(kz.data.Batches(Y, batch=5, **options).epoch(epoch))).tolist()
    assert order(0) == order(0) != order(1) and order(0, seed=2) != order(0)
    assert order(3, shuffle=False) == list(range(25))


def test_each_loop_runs_the_next_epoch_in_a_new_order():
    batches, same_batches = kz.data.Batches(Y, batch=5), kz.data.Batches(Y, batch=5)
    loops = [np.concatenate(list(batches)).tolist() for _ in range(3)]
    assert loops == [np.concatenate(list(same_batches.epoch(n))).tolist() for n in range(3)]
    assert len({tuple(order) for order in loops}) == 3


def test_a_batch_can_be_read_by_its_number():
    batches = kz.data.Batches(Y, batch=6)
    assert batches.per_epoch == 4
    second = list(batches.epoch(1))
    np.testing.assert_array_equal(batches.at(6), second[2])
    np.testing.assert_array_equal(batches.at(0), next(iter(batches)))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(25, dtype=np.uint8),
        np.arange(50).reshape(25, 2) * 1j,
        np.array([f"row {i:>{i}}" for i in range(25)]),
        np.array([{"row": i} for i in range(25)], dtype=object),
        np.zeros((25, 0), np.float16),
        np.arange(25).astype("datetime64[D]"),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_of_any_dtype_are_divided(array):
    for rows, part in kz.data.Batches(Y, array, batch=4, drop_last=False):
        assert part.dtype == array.dtype and part.shape == (len(rows), *array.shape[1:])
        np.testing.assert_array_equal(part, array[rows])
        part[:1] = array[:1]  # the batch is the user's


def test_the_order_is_that_of_a_data_set():
    batches = kz.data.Batches(Y, batch=6, seed=9, drop_last=False)
    dataset = kz.data.from_arrays(Y).shuffle(seed=9).batch(6)
    for _ in range(3):
        for expected, got in zip(dataset.as_numpy(), batches, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_two_loops_at_the_same_time_are_two_epochs():
    batches = kz.data.Batches(Y, batch=6)
    first, second = zip(*((a.tolist(), b.tolist()) for a, b in zip(batches, batches, strict=True)), strict=True)
    assert list(first) == [x.tolist() for x in batches.epoch(0)]
    assert list(second) == [x.tolist() for x in batches.epoch(1)]


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: kz.data.Batches(), "got 0 arrays and batch=64"),
        (
            lambda: kz.data.Batches(X, batch=0),
            "expected at least one array and an integer batch >= 1, got 1 array and batch=0",
        ),
        (lambda: kz.data.Batches(X, Y[1:]), r"the same number of rows, got shapes \(25, 2\), \(24,\)"),
        (lambda: kz.data.Batches(X, batch=26), "batch must be at most 25, the number of rows; got 26"),
        (lambda: kz.data.Batches(3), "all arrays must have the same number of rows"),
        (lambda: kz.data.Batches(X, batch=5).at(-1), "the epoch must be at least 0, got -1"),
    ],
)
def test_arguments_that_allow_no_batch_are_errors(make, text):
    with pytest.raises(kz.Error, match=text):
        make()
