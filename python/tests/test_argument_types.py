"""Arguments of a wrong type: the error names the argument, what is expected and what was given."""

import builtins
import inspect

import numpy as np
import pytest

import karez as kz
from karez import data
from karez.data import images

NUMBERS = data.range(10)
CALLS = {
    "shuffle: buffer must be an integer, got 2.5": lambda: NUMBERS.shuffle(2.5),
    "shuffle: seed must be an integer, got 'a'": lambda: NUMBERS.shuffle(seed="a"),
    "batch: n must be an integer, got '3'": lambda: NUMBERS.batch("3"),
    "batch: n must be an integer, got None": lambda: NUMBERS.batch(None),
    "batch: last must be a string, got 3": lambda: NUMBERS.batch(2, last=3),
    "map: parallel must be an integer or 'auto', got 1.5": lambda: NUMBERS.map(abs, parallel=1.5),
    "map: seed must be an integer, got 'x'": lambda: NUMBERS.map(abs, rng=True, seed="x"),
    "interleave: cycle must be an integer, got 1.5": lambda: NUMBERS.interleave(data.range, cycle=1.5),
    "bucket_by_length: boundaries must be a sequence of integers, got [1.5]": lambda: NUMBERS.bucket_by_length(
        len, [1.5], [2, 2]
    ),
    "with_options: bytes must be an integer or None, got '1 GB'": lambda: NUMBERS.with_options(bytes="1 GB"),
    "with_options: deterministic must be True, False or None, got 3": lambda: NUMBERS.with_options(deterministic=3),
    "iterator: slots must be an integer or 'auto', got 1.5": lambda: NUMBERS.iterator(slots=1.5),
    "subset: indices must be an iterable of integers, got 'a'": lambda: NUMBERS.subset("a"),
    "range: arguments must be an integer, got 1.5": lambda: data.range(0, 1.5),
    "crop: top must be an integer, got 1.5": lambda: images.crop(1.5, 0, 1, 1),
    "normalize: mean must be a number or a sequence of numbers, got 'a'": lambda: images.normalize("a", 1),
    "transpose: axes must be a sequence of integers, got 3": lambda: images.transpose(3),
    "random_horizontal_flip: p must be a number, got 'x'": lambda: images.random_horizontal_flip("x"),
    "random_resized_crop: scale must be a sequence of numbers, got 3": lambda: images.random_resized_crop(8, scale=3),
}


@pytest.mark.parametrize("message", CALLS)
def test_an_error_names_the_argument(message):
    with pytest.raises(kz.TypeError) as error:
        CALLS[message]()
    assert str(error.value) == message
    assert isinstance(error.value, builtins.TypeError)


def test_other_errors_stay_as_they_are():
    with pytest.raises(builtins.TypeError, match="missing 1 required positional argument: 'index'"):
        NUMBERS.shard(2)
    with pytest.raises(kz.UserError, match="take: count must be at least 0, got -1"):
        NUMBERS.take(-1)

    def fails(x):
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        list(NUMBERS.map(fails))


def test_numbers_of_numpy_are_numbers():
    batches = NUMBERS.take(np.int64(6)).batch(np.int32(3))
    assert [x.tolist() for x in batches.as_numpy()] == [[0, 1, 2], [3, 4, 5]]
    assert images.adjust_contrast(np.float32(1))(np.full((1, 2), 7, np.uint8)).tolist() == [[7, 7]]


def test_signatures_and_texts_are_those_of_the_functions():
    assert list(inspect.signature(data.Dataset.batch).parameters)[:2] == ["self", "n"]
    assert data.range.__doc__ and data.range.__module__ == "karez.data.sources"


def test_a_list_of_numbers_is_an_array():
    assert [int(x) for x in data.from_arrays([1, 2, 3]).as_numpy()] == [1, 2, 3]
    rows = list(data.from_arrays({"x": [[1.5, 2], [3, 4]], "y": [True, False]}).as_numpy())
    assert rows[1]["x"].tolist() == [3, 4] and not rows[1]["y"]
    pair = next(iter(data.from_arrays([np.zeros(2), [3, 4]]).as_numpy()))
    assert isinstance(pair, tuple) and int(pair[1]) == 3
