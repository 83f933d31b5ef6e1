"""Worker processes of data sets: sizes of messages, shared memory, and processes that cannot be started."""

import os
import resource
import sys

import numpy as np
import pytest
from dataset_programs import run

import karez as kz
from karez import data


def memory_files():
    """The files of memory that this process shares with workers, by their number: their bytes."""
    found = {}
    for file in os.listdir("/proc/self/fd"):
        try:
            if "memfd:karez-data" in os.readlink(f"/proc/self/fd/{file}"):
                status = os.stat(f"/proc/self/fd/{file}")
                found[status.st_ino] = status.st_blocks * 512
        except OSError:  # the file of listdir
            continue
    return found


def test_messages_of_all_sizes_arrive():
    lengths = [0, *range(900, 2800, 75)]  # bodies of 20 to 90 kB, of small arrays
    rows = data.from_source([(list(range(length)), "x" * length) for length in lengths])
    for i, (numbers, text) in enumerate(rows.map(lambda numbers, text: (numbers, text), processes=True).as_numpy()):
        assert [int(x) for x in numbers] == list(range(lengths[i])) and text == "x" * lengths[i]
    sums = rows.map(lambda numbers, text: sum(numbers), processes=True)
    assert [int(x) for x in sums] == [sum(range(length)) for length in lengths]


def test_random_functions_return_large_arrays():
    def large(x, rng):
        return rng.normal(size=(50, 60)), rng.integers(9, size=3), "y" * 10_000

    numbers = data.range(6)
    here = list(numbers.map(large, 2, processes=False, rng=True).as_numpy())
    there = list(numbers.map(large, 2, processes=True, rng=True).as_numpy())
    assert len(here) == len(there) == 6
    for a, b in zip(here, there):
        assert all(np.array_equal(x, y) for x, y in zip(a, b))


def test_the_memory_of_large_arguments_is_freed():
    sizes = [4_000_000, 8_000_000, 8_000_000, 10, 10]
    arrays = data.range(len(sizes)).map(lambda i: np.ones(sizes[int(i)]))
    before = memory_files()
    with arrays.map(lambda x: len(x), 1, processes=True).iterator(slots=1) as iterator:
        assert [int(x) for x in iterator] == sizes
        assert max(size for file, size in memory_files().items() if file not in before) < 16 << 20


def test_a_worker_keeps_one_copy_of_what_its_function_uses():
    table = np.ones(4 << 20)  # 32 MiB

    def private_memory():
        (line,) = [line for line in open("/proc/self/status") if line.startswith("RssAnon")]
        return int(line.split()[1]) << 10

    small = data.range(1).map(lambda x: private_memory(), processes=True)
    large = data.range(1).map(lambda x: private_memory() + int(table[0]), processes=True)
    assert table.nbytes // 2 < int(large[0]) - int(small[0]) < 3 * table.nbytes // 2


def test_a_worker_that_cannot_be_started_is_an_error_and_leaves_nothing_open(monkeypatch):
    dataset = data.range(6).map(abs, 2, processes=True)
    before = set(memory_files())
    monkeypatch.setattr(sys, "executable", "/does/not/exist")
    for _ in range(3):
        with pytest.raises(kz.Error, match="a worker process cannot be started: /does/not/exist: No such file"):
            dataset[0]
    assert set(memory_files()) <= before


def test_starts_of_workers_leave_only_their_connections_open():
    def empty_files():
        files = [f"/proc/self/fd/{file}" for file in os.listdir("/proc/self/fd")]
        return [file for file in files if os.path.exists(file) and os.readlink(file) == "/dev/null"]

    before = empty_files()
    for _ in range(2):
        data.range(2).map(abs, 1, processes=True)[0]
    assert len(empty_files()) <= len(before)


def test_workers_start_after_some_could_not_be_started():
    dataset = data.range(6).map(lambda x: (x, os.getpid()), 1, processes=True)
    before = set(memory_files())
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, old[1]))
        for _ in range(3):
            with pytest.raises(kz.Error, match="no shared memory for a worker process: File too large"):
                dataset[0]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert set(memory_files()) <= before
    assert [int(x) for x, _ in dataset.as_numpy()] == list(range(6))


def test_parts_of_an_element_do_not_exceed_the_memory_of_a_channel():
    program = """
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), resource.RLIM_INFINITY))
# A channel has 64 MiB at most.
parts = data.range(3).map(lambda i: [np.full(40 << 20, i, np.uint8), np.full(40 << 20, i + 1, np.uint8)])
small = data.range(3).map(lambda i: np.full(1 << 20, i, np.uint8))
for elements in (parts, small):
    try:
        found = elements.map(lambda x: int(x[0].max()), 1, processes=True)[1]
        print(int(found))
    except kz.DataError as error:
        print("at most" in str(error) and "processes=False" in str(error))
"""
    assert run(program) == (0, "True\n1\n", "")
