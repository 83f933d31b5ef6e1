"""Several elements in one call of Python: fast functions with parallel=n, in threads and in worker processes."""

import os
import re
import signal
import sys
import time
import warnings

import numpy as np
import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

import karez as kz
from karez import data
from karez.data import text

COUNT = 3000
WHERE = pytest.mark.parametrize("processes", [False, True])


def elements(dataset):
    return list(dataset.as_numpy())


def plus_one(x):
    return x + 1


def group_size(x):
    """The number of elements of the request that the worker process computes."""
    frame = sys._getframe()
    while frame.f_code.co_name != "answer":
        frame = frame.f_back
    return x, frame.f_locals["count"]


def test_short_functions_get_several_elements_in_a_request():
    found = elements(data.range(COUNT).map(group_size, 2, processes=True))
    assert [int(x) for x, _ in found] == list(range(COUNT))
    assert found[0][1] == 1 and max(count for _, count in found) > 4


def test_long_functions_get_one_element_in_a_request():
    def slow(x):
        time.sleep(0.002)
        return group_size(x)

    found = elements(data.range(100).map(slow, 2, processes=True))
    assert {int(count) for _, count in found} == {1}


@WHERE
def test_results_are_those_of_one_after_the_other(processes):
    rng = np.random.default_rng(1)
    sizes = [*rng.integers(0, 3000, 200), *[10] * 600, 300_000, *[700] * 200]
    rows = [(np.full(size, i % 128, np.int8), "ab" * (i % 5), {"number": i}) for i, size in enumerate(sizes)]

    def work(array, line, numbers):
        if numbers["number"] % 7 == 3:
            return data.SKIP
        return {"twice": array * 2, "line": line + "é", "none": None, "size": len(array)}

    found = elements(data.from_source(rows).map(work, 2, processes=processes))
    expected = [work(*row) for i, row in enumerate(rows) if i % 7 != 3]
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.pop("twice"), b.pop("twice"))
        assert a == b


@WHERE
def test_random_numbers_belong_to_the_record(processes):
    def draw(x, rng):
        return x * 1000 + rng.integers(1000)

    dataset = data.range(COUNT).shuffle(seed=3)
    found = elements(dataset.map(draw, 2, processes=processes, rng=True, seed=5))
    assert found == elements(dataset.map(draw, 1, rng=True, seed=5))


@WHERE
def test_a_filter_keeps_what_is_true(processes):
    found = elements(data.range(COUNT).filter(lambda x: x % 3 == 1, 2, processes=processes))
    assert [int(x) for x in found] == list(range(1, COUNT, 3))


@WHERE
def test_the_order_may_be_that_of_completion(processes):
    found = elements(data.range(COUNT).map(plus_one, 3, processes=processes, deterministic=False))
    assert sorted(int(x) for x in found) == list(range(1, COUNT + 1))


@WHERE
@pytest.mark.parametrize("where", [data.range(COUNT), data.range(COUNT).filter(lambda x: True)])
def test_a_position_continues_after_any_element(processes, where):
    dataset = where.map(plus_one, 2, processes=processes)
    with dataset.iterator() as iterator, dataset.iterator() as other:
        loop = iter(iterator)
        for read in (1, 500, 1001, 1017):
            numbers = [int(x) for _, x in zip(range(read), loop)]
            last = numbers[-1]
            other.load_state(iterator.state())
            assert [int(x) for _, x in zip(range(40), other)] == list(range(last + 1, last + 41))
        iterator.load_state(other.state())
        assert int(next(iter(iterator))) == last + 41


@WHERE
def test_an_error_names_its_record_and_comes_after_the_elements_before_it(processes):
    def fail(x):
        if x == 2500:
            raise KeyError(int(x))
        return x

    dataset = data.range(COUNT).map(fail, 2, processes=processes)
    for epoch in range(2):
        seen = []
        with pytest.raises(KeyError) as caught:
            for x in dataset.as_numpy():
                seen.append(int(x))
        assert caught.value.args == (2500,) and seen == list(range(2500))
        if processes:
            assert f"record 2500 of epoch {epoch} in map(fail), worker process" in str(caught.value.__cause__)


def test_a_result_that_is_no_element_is_an_error_of_its_record():
    with pytest.raises(kz.TypeError, match="a key of a dict"):
        elements(data.range(COUNT).map(lambda x: {1: x} if x == 2500 else {"1": x}, 2, processes=False))
    found = data.range(COUNT).map(lambda x: {1: x} if x == 2500 else {"1": x}, 2, processes=True)
    with pytest.raises(kz.TypeError, match="a key of a dict"):
        elements(found)


def test_arguments_that_cannot_be_read_in_a_worker_are_errors_of_their_record():
    class Never:
        def __init__(self, number):
            self.number = number

        def __reduce__(self):
            return (int, (self.number,)) if self.number != 2500 else (int, ("x",))

    seen = []
    with pytest.raises(ValueError, match="invalid literal"):
        for x in data.from_source([Never(i) for i in range(COUNT)]).map(plus_one, 2, processes=True).as_numpy():
            seen.append(int(x))
    assert seen == list(range(1, 2501))


def test_a_killed_worker_is_an_error_of_the_record_that_it_computed():
    def end(x):
        if x == 2500:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    seen = []
    with pytest.raises(kz.DataError, match=r"record 2500 of epoch 0 in map\(end\): worker process \d+ was killed"):
        for x in data.range(COUNT).map(end, 2, processes=True).as_numpy():
            seen.append(int(x))
    assert seen == list(range(2500))


def test_after_a_kill_all_elements_are_computed_by_another_worker(tmp_path):
    def work(x, rng):
        if x % 700 == 650 and not (tmp_path / str(int(x))).exists():
            (tmp_path / str(int(x))).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x * 1000 + rng.integers(1000)

    found = elements(data.range(COUNT).map(work, 2, processes=True, rng=True, on_worker_exit="restart"))
    assert len(list(tmp_path.iterdir())) == 4
    assert found == elements(data.range(COUNT).map(work, 2, processes=False, rng=True))


def test_a_record_that_always_ends_its_worker_is_named_after_three_restarts(tmp_path):
    def end(x):
        if x == 2500:
            (tmp_path / str(len(list(tmp_path.iterdir())))).touch()
            os._exit(9)
        return x

    with pytest.raises(kz.DataError, match=r"record 2500 .* ended with exit status 9; .*number 4"):
        elements(data.range(COUNT).map(end, 2, processes=True, on_worker_exit="restart"))
    assert len(list(tmp_path.iterdir())) == 4


def test_arguments_that_a_function_keeps_do_not_change():
    kept = []

    def keep(x):
        kept.append(x)
        del kept[:-50]
        return all((array == array[0]).all() for array in kept), x[0]

    arrays = np.repeat(np.arange(1000.0), 600).reshape(1000, 600)  # in shared memory
    found = elements(data.from_arrays(arrays).map(keep, 2, processes=True))
    assert all(same for same, _ in found) and [x for _, x in found] == list(range(1000))


def test_no_further_elements_are_computed_ahead_by_long_functions():
    calls = []

    def slow(x):
        calls.append(int(x))
        time.sleep(0.002)
        return x

    with data.range(1000).map(slow, 2, processes=False).iterator() as iterator:
        next(iter(iterator))
        time.sleep(0.1)  # enough for all 1000 if nothing limited them
        assert len(calls) <= 2 + 2 * 2 + 2


def library_tokenizer():
    made = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, **{f"w{i}": i + 1 for i in range(50)}}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


LINES = [" ".join(f"w{(7 * i + k) % 60}" for k in range(i % 9)) for i in range(COUNT)]


@pytest.mark.parametrize("max_length, truncation", [(None, "right"), (3, "left"), (5, "right")])
@pytest.mark.parametrize("kind", ["line", "tuple", "dict"])
def test_tokens_of_several_lines_are_those_of_each(kind, max_length, truncation):
    rows = {
        "line": LINES,
        "tuple": [(line, i) for i, line in enumerate(LINES)],
        "dict": [{"text": line.encode(), "i": i} for i, line in enumerate(LINES)],
    }[kind]
    options = {"max_length": max_length, "truncation": truncation, "field": "text" if kind == "dict" else 0}
    for function in (text.tokenizer(library_tokenizer(), **options), text.byte_tokens(**options)):
        found = elements(data.from_source(rows).map(function, 2))
        for row, element in zip(rows, found, strict=True):
            expected = function(*row) if kind == "tuple" else function(row)
            if kind == "dict":
                assert element["i"] == row["i"]
                element, expected = element["text"], expected["text"]
            elif kind == "tuple":
                assert element[1] == row[1]
                element, expected = element[0], expected[0]
            assert element.dtype == np.int32
            np.testing.assert_array_equal(element, expected)


def test_the_library_gets_several_lines_in_one_call():
    sizes = []

    class Counted(text.Function):
        def many_tokens(self, lines):
            sizes.append(len(lines))
            return [np.zeros(len(line), np.int32) for line in lines]

        def tokens(self, line):
            sizes.append(1)
            return np.zeros(len(line), np.int32)

    found = elements(data.from_source(LINES).map(Counted("counted", None, "right", 0), 2))
    assert [len(x) for x in found] == [len(line) for line in LINES]
    assert sum(sizes) == COUNT and max(sizes) > 4


def test_a_function_with_its_own_call_is_called_for_each_element():
    class Own(text.Function):
        def __call__(self, line):
            return np.array([len(line)])

    found = elements(data.from_source(LINES).map(Own("own", None, "right", 0), 2))
    assert [int(x[0]) for x in found] == [len(line) for line in LINES]


@pytest.mark.parametrize("bad", [b"\xff", 7, "w1 " * 20])
def test_a_wrong_line_among_several_is_an_error_in_its_place(bad):
    rows = [*LINES[:2500], bad, *LINES[2500:]]
    function = text.tokenizer(library_tokenizer(), max_length=10, truncation="error")
    expected = pytest.raises(Exception)
    with expected as alone:
        function(bad if bad != 7 else np.int64(7))
    seen = []
    with pytest.raises(alone.type) as caught:
        for x in data.from_source(rows).map(function, 2).as_numpy():
            seen.append(x)
    assert len(seen) == 2500
    assert re.sub("int64|ndarray", "", str(caught.value)) == re.sub("int64|ndarray", "", str(alone.value))


def test_damaged_records_are_counted_for_each_element():
    def decode(x):
        return image(np.array([1, 2, 3], np.uint8)) if x % 5 == 0 else x

    image = data.images.decode(on_error="skip")
    for processes in (False, True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = elements(data.range(1000).map(decode, 2, processes=processes))
        assert [int(x) for x in found] == [i for i in range(1000) if i % 5]
        assert ["200 damaged" in str(one.message) for one in caught] == [True]
