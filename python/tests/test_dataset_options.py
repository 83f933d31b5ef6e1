"""Data sets: limits and order of stages, and the tables of explain_data."""

import re
import threading
import time

import numpy as np
import pytest

import karez as kz
from karez import data


def test_options_of_the_stages_before_a_point_change_no_element():
    numbers = data.range(50).map(lambda x: x + 1, 3).filter(lambda x: x % 3, 2).batch(4)
    expected = [x.tolist() for x in numbers.as_numpy()]
    assert [x.tolist() for x in numbers.with_options(bytes=1, cpu=1).as_numpy()] == expected
    unordered = numbers.with_options(deterministic=False)
    assert sorted(x for batch in unordered.as_numpy() for x in batch) == sorted(sum(expected, []))
    iterator = unordered.iterator()
    with pytest.raises(kz.UserError, match="deterministic=False"):
        iterator.state()
    again = unordered.with_options(deterministic=True, bytes=None).iterator()
    assert [x.tolist() for x in again.as_numpy()] == expected and again.state() == "epoch 1 -"
    assert "with_options(bytes=5, cpu=2)" in repr(numbers.with_options(bytes=5, cpu=2))
    for options, message in [
        ({"bytes": 0}, "bytes must be at least 1, got 0"),
        ({"cpu": -2}, "cpu must be at least 1"),
        ({"oversize": "fail"}, "oversize must be 'pass' or 'error', got 'fail'"),
    ]:
        with pytest.raises(kz.UserError, match=message):
            numbers.with_options(**options)


def test_an_element_above_the_limit_of_bytes_passes_or_is_an_error():
    dataset = data.range(5).map(lambda x: np.zeros(int(x) * 10, np.uint8))
    sizes = [0, 10, 20, 30, 40]
    assert [x.size for x in dataset.with_options(bytes=30, oversize="pass").as_numpy()] == sizes
    assert [x.size for x in dataset.with_options(bytes=40, oversize="error").as_numpy()] == sizes
    limited = dataset.with_options(bytes=30, oversize="error")
    assert "oversize=error" in repr(limited)
    read = []
    with pytest.raises(
        kz.DataError, match="stage .*map makes an element of 40 bytes, but with_options allows 30 bytes"
    ):
        read.extend(x.size for x in limited.as_numpy())
    assert read == sizes[:4]


def test_summaries_and_explain_data_show_memory():
    step = kz.compile(lambda x: x.sum())
    with data.from_arrays(np.ones((640, 100), np.float32)).batch(64).iterator() as iterator:
        for x in iterator:
            step(x)
        text = re.search(r"memory of this process: (\S+) (\S+)", iterator.explain_data())
        assert float(text[1]) > 1 and text[2] in ("MiB", "GiB")
        assert "memory of data sets on this rank: 150.00 KiB\n" in step.summary()


def test_functions_of_a_data_set_run_at_most_cpu_at_a_time():
    running, most = 0, 0
    lock = threading.Lock()

    def count(x):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001)
        with lock:
            running -= 1
        return x

    for _ in data.range(60).map(count, 8).prefetch(4).map(count).with_options(cpu=2):
        pass
    assert most <= 2


def test_explain_data_lists_the_actors_and_what_they_have_done():
    def decode(x):
        return x * 2

    numbers = data.range(20).map(decode).filter(lambda x: x % 3).shuffle(buffer=5).prefetch(3).batch(4)
    lines = numbers.explain_data().splitlines()
    assert lines[0].split() == ["actor", "lanes", "slots", "position", "stages"]
    assert lines[1].split(maxsplit=4) == [
        "0",
        "1",
        "3",
        "index,",
        "replay  range(0, 20, 1), map(decode) (by index), filter, shuffle(buffer=5, seed=1)",
    ]
    assert lines[2].split() == ["1", "1", "2", "-", "batch(4,", "last=keep)"]
    iterator = numbers.iterator()
    assert len(list(iterator)) == 4
    report = [line.split() for line in iterator.explain_data().splitlines()]
    # 13 of 20 numbers are not multiples of 3. Each epoch ends with one more act, which emits the end.
    assert report[1][:5] == ["0", "1", "0/3", "14", "13"]
    assert report[2][:5] == ["1", "1", "0/2", "15", "4"]
    assert "no positions" in numbers.map(decode, 2, deterministic=False).explain_data()
    iterator.close()
    with pytest.raises(kz.UserError, match="the iterator is closed"):
        iterator.explain_data()
