"""Tests of parallel="auto" and prefetch("auto")."""

import os
import re
import threading
import time

import numpy as np
import pytest

import karez as kz
from karez import data


def double(x):
    return x * 2


def slow(x):
    time.sleep(0.003)
    return x + 1


class Squares:
    def __len__(self):
        return 50

    def __getitem__(self, index):
        return index * index


def numbers(dataset):
    return [int(x) for x in dataset.as_numpy()]


@pytest.mark.parametrize("processes", [None, False, True])
def test_elements_and_their_order_are_those_of_one_lane(processes):
    mapped = data.range(200).map(double, parallel="auto", processes=processes)
    assert numbers(mapped) == [2 * x for x in range(200)]
    assert numbers(mapped) == [2 * x for x in range(200)], "the second epoch begins with the numbers of the first"
    assert [int(mapped[i]) for i in (0, 7)] == [0, 14]
    odd = data.range(100).filter(lambda x: x % 2 == 1, parallel="auto", processes=processes)
    assert numbers(odd.prefetch("auto")) == list(range(1, 100, 2))
    both = mapped.shuffle(seed=3).map(double, parallel="auto", processes=False).batch(7)
    expected = data.range(200).map(double).shuffle(seed=3).map(double).batch(7)
    for a, b in zip(both.as_numpy(), expected.as_numpy()):
        np.testing.assert_array_equal(a, b)


def test_sources_interleave_and_images():
    assert numbers(data.from_source(Squares(), parallel="auto")) == [x * x for x in range(50)]
    parts = data.range(5).interleave(lambda x: data.range(10 * x, 10 * x + 4), cycle=3, parallel="auto")
    given = data.range(5).interleave(lambda x: data.range(10 * x, 10 * x + 4), cycle=3)
    assert numbers(parts) == numbers(given)
    pixels = [np.full((8, 6, 3), i, np.uint8) for i in range(40)]
    images = data.from_source(pixels).map(data.images.resize((4, 3)), parallel="auto")
    assert [int(image[0, 0, 0]) for image in images.as_numpy()] == list(range(40))


def test_random_functions_do_not_depend_on_the_numbers():
    def noisy(x, rng):
        return float(x) + rng.uniform()

    chosen = data.range(100).map(noisy, parallel="auto", rng=True, seed=5)
    given = data.range(100).map(noisy, rng=True, seed=5)
    assert [float(x) for x in chosen.as_numpy()] == [float(x) for x in given.as_numpy()]


def test_threads_of_functions_that_wait_become_more_than_the_cores_and_the_table_says_why():
    inside, most, lock = 0, 0, threading.Lock()

    def wait(x):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.003)
        with lock:
            inside -= 1
        return x

    dataset = data.range(100_000).map(wait, parallel="auto", processes=False)
    table = dataset.explain_data()
    assert re.search(r"\n +1 +auto +auto ", table), table
    with dataset.iterator() as iterator:
        deadline = time.monotonic() + 30
        for i, x in enumerate(iterator.as_numpy()):
            assert int(x) == i
            if most >= 12 or time.monotonic() > deadline:
                break
        table = iterator.explain_data()
    assert most >= 12, table
    assert re.search(r"actor 1: lanes \d+ of at most \d+: fewer were all busy for \d+ % of the time", table), table


def test_functions_that_compute_have_as_many_processes_as_cores_and_others_more():
    cores = len(os.sched_getaffinity(0))

    def compute(x):
        end = time.process_time() + 0.01
        while time.process_time() < end:
            pass
        return os.getpid()

    def wait(x):
        time.sleep(0.02)
        return os.getpid()

    dataset = data.range(100).map(compute, parallel="auto", processes=True)
    pids = {int(x) for x in dataset.as_numpy()}
    assert 1 <= len(pids) <= 2 * cores and os.getpid() not in pids, dataset.explain_data()
    dataset = data.range(10_000).map(wait, parallel="auto", processes=True)
    pids, end = set(), time.monotonic() + 60
    with dataset.iterator() as iterator:
        for x in iterator.as_numpy():
            pids.add(int(x))
            if len(pids) > min(2 * cores, 8) or time.monotonic() > end:
                break
        assert len(pids) > min(2 * cores, 8), iterator.explain_data()


def test_a_position_is_valid_for_other_numbers():
    chosen = data.range(500).map(slow, parallel="auto", processes=False).batch(5)
    given = data.range(500).map(slow).batch(5)
    with chosen.iterator() as iterator:
        for i, _ in enumerate(iterator):
            if i == 20:
                break
        state = iterator.state()
    with given.iterator() as resumed:
        resumed.load_state(state)
        np.testing.assert_array_equal(next(iter(resumed.as_numpy())), np.arange(106, 111))
    with chosen.iterator(slots="auto") as resumed:
        resumed.load_state(state)
        np.testing.assert_array_equal(next(iter(resumed.as_numpy())), np.arange(106, 111))


def test_an_error_ends_the_epoch_and_two_iterators_have_numbers_of_their_own():
    def fails(x):
        if int(x) == 30:
            raise ValueError("planted")
        return x

    dataset = data.range(60).map(fails, parallel="auto", processes=False)
    with dataset.iterator() as first, dataset.iterator() as second:
        for iterator in (first, second):
            read = []
            with pytest.raises(ValueError, match="planted"):
                for x in iterator.as_numpy():
                    read.append(int(x))
            assert read == list(range(30))


def test_numbers_that_are_no_numbers_are_errors():
    dataset = data.range(3)
    for call, what in (
        (lambda: dataset.map(double, parallel="fast"), "map: parallel"),
        (lambda: dataset.filter(double, parallel="fast"), "filter: parallel"),
        (lambda: dataset.interleave(data.range, parallel="fast"), "interleave: parallel"),
        (lambda: dataset.prefetch("fast"), "prefetch: slots"),
        (lambda: dataset.iterator(slots="fast"), "iterator: slots"),
    ):
        with pytest.raises(kz.UserError, match=f"{what} must be a number or 'auto', got 'fast'"):
            call()
    with pytest.raises(kz.UserError, match="parallel must be between 1 and 1024, got -1"):
        dataset.map(double, parallel=-1)


def test_descriptions_contain_auto():
    dataset = data.range(3).map(double, parallel="auto").prefetch("auto")
    assert repr(dataset) == "Dataset:\nprefetch(auto)\nmap(double, parallel=auto)\nrange(0, 3, 1)"
