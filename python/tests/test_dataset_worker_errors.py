"""Errors in worker processes of data sets: exceptions of functions, and processes that end."""

import atexit
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

import karez as kz
from karez import data


class ParseError(ValueError):
    def __init__(self, line, column):
        super().__init__(f"line {line}, column {column}")
        self.line, self.column = line, column

    def __reduce__(self):
        return ParseError, (self.line, self.column)


class UnrestorableError(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class WorkerError(Exception):
    """An error that only its own process can restore."""

    def __reduce__(self):
        return restore_in, (os.getpid(),)


def restore_in(process):
    if os.getpid() != process:
        raise ImportError("another process")
    return WorkerError()


class NeverLoads:
    def __reduce__(self):
        return fail_to_load, ()


def fail_to_load():
    raise ImportError("not here")


def failing(error, at=3):
    def fail(x):
        if x == at:
            raise error
        return x

    return fail


@pytest.mark.parametrize("parallel", [1, 3])
def test_an_exception_has_its_type_and_the_traceback_in_the_worker(parallel):
    dataset = data.range(8).map(failing(ParseError(3, 7)), parallel, processes=True)
    seen = []
    with pytest.raises(ParseError, match="line 3, column 7") as caught:
        for x in dataset:
            seen.append(int(x))
    assert seen == [0, 1, 2] and (caught.value.line, caught.value.column) == (3, 7)
    cause = str(caught.value.__cause__)
    assert cause.startswith("record 3 of epoch 0 in map(fail), worker process ") and "in fail\n" in cause
    assert cause.endswith("ParseError: line 3, column 7") and "worker.py" not in cause
    seen = []
    with pytest.raises(ParseError) as caught:
        for x in dataset:
            seen.append(int(x))
    assert seen == [0, 1, 2] and "record 3 of epoch 1 in map(fail)" in str(caught.value.__cause__)
    assert int(dataset[4]) == 4 and pytest.raises(ParseError, lambda: dataset[3])


@pytest.mark.parametrize(
    "error", [KeyError("k"), KeyboardInterrupt(), SystemExit(4), kz.ShapeError("sizes"), OSError(2, "x")]
)
def test_exceptions_of_many_types_arrive(error):
    with pytest.raises(type(error)) as caught:
        list(data.range(5).map(failing(error), 2, processes=True))
    assert caught.value.args == error.args


def test_an_exception_that_cannot_be_pickled_is_a_data_error_with_its_text():
    lock = __import__("threading").Lock()

    def fail(x):
        raise RuntimeError("with a lock", __import__("threading").Lock())

    del lock
    with pytest.raises(
        kz.DataError, match=r"record 0 of epoch 0 in map\(fail\), worker process \d+: RuntimeError: "
    ) as caught:
        list(data.range(3).map(fail, 2, processes=True))
    assert "in fail\n" in str(caught.value.__cause__)

    def fail_there(x):
        raise WorkerError

    with pytest.raises(kz.DataError, match=r"record 0 of epoch 0 in map\(fail_there\), .*\d+: WorkerError: $"):
        list(data.range(3).map(fail_there, 2, processes=True))
    with pytest.raises(kz.DataError, match="UnrestorableError: a and b"):
        list(data.range(3).map(lambda x: exec("raise make()", {"make": lambda: UnrestorableError("a", "b")}), 2))


def test_results_that_cannot_be_pickled_are_errors_of_their_record():
    with pytest.raises((TypeError, pickle.PicklingError), match="pickle"):
        list(data.range(3).map(lambda x: __import__("threading").Lock(), 2, processes=True))
    for processes in (False, True):
        with pytest.raises(kz.TypeError, match="a key of a dict in an element of a data set must be a string"):
            list(data.range(3).map(lambda x: {1: 2}, 2, processes=processes))


def test_a_function_that_cannot_be_loaded_is_an_error_that_says_what_to_do():
    marker = NeverLoads()
    with pytest.raises(
        kz.TypeError,
        match=r"in map, worker process \d+: the function cannot be loaded: ImportError: not here.*processes=False",
    ):
        list(data.range(3).map(lambda x: marker, 2, processes=True))


def test_other_elements_of_the_workers_are_right_after_an_error():
    dataset = data.range(40).map(lambda x: 1 // (int(x) % 10) or x, 2, processes=True)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            list(dataset)
    assert [int(dataset[i]) for i in range(1, 10)] == [1, *range(2, 10)]


ENDS = [
    (lambda: os.kill(os.getpid(), signal.SIGKILL), r"was killed by signal 9 \(Killed\)"),
    (lambda: os.kill(os.getpid(), signal.SIGSEGV), r"was killed by signal 11 \(Segmentation fault\)"),
    (lambda: os._exit(3), "ended with exit status 3"),
]


@pytest.mark.parametrize("end, how", ENDS)
def test_a_worker_that_ends_is_an_error_that_names_it(end, how):
    def work(x):
        if x == 5:
            time.sleep(0.1)  # so that the elements before have arrived
            end()
        return x

    dataset = data.range(10).map(work, 2, processes=True)
    seen = []
    with pytest.raises(
        kz.DataError, match=rf'record 5 of epoch 0 in map\(work\): worker process \d+ {how}.*on_worker_exit="restart"'
    ):
        for x in dataset:
            seen.append(int(x))
    assert seen == [0, 1, 2, 3, 4]
    assert [int(x) for x in dataset.take(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(kz.DataError, match="record 5 of epoch 1"):
        list(dataset)


@pytest.mark.parametrize("end", [end for end, _ in ENDS])
@pytest.mark.parametrize("parallel", [1, 3])
def test_a_worker_that_ends_may_restart(tmp_path, end, parallel):
    def work(x, rng):
        if x % 4 == 1 and not (tmp_path / str(x)).exists():
            (tmp_path / str(x)).touch()
            end()
        return x * 1000 + rng.integers(1000)

    def elements(**options):
        return [int(x) for x in data.range(20).map(work, parallel, rng=True, **options)]

    restarted = elements(processes=True, on_worker_exit="restart")
    assert len(list(tmp_path.iterdir())) == 5 and restarted == elements(processes=False)


def test_a_worker_restarts_three_times_for_one_element(tmp_path):
    def work(x):
        if x == 2:
            (tmp_path / str(len(list(tmp_path.iterdir())))).touch()
            os._exit(9)
        return x

    dataset = data.range(5).map(work, 2, processes=True, on_worker_exit="restart")
    with pytest.raises(
        kz.DataError,
        match=r"record 2 of epoch 0 in map\(work\): worker process \d+ ended with exit status 9; .*number 4",
    ):
        list(dataset)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_worker_that_was_killed_while_it_waited_is_replaced_or_named():
    def kill_all(dataset):
        pids = {int(pid) for pid in dataset.as_numpy()}
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    dataset = data.range(6).map(lambda x: os.getpid(), 2, processes=True, on_worker_exit="restart")
    killed = kill_all(dataset)
    assert killed.isdisjoint({int(pid) for pid in dataset.as_numpy()})
    dataset = data.range(6).map(lambda x: os.getpid(), 1, processes=True)
    kill_all(dataset)
    with pytest.raises(kz.DataError, match="was killed by signal 9 .*before it computed this record"):
        list(dataset)
    assert len(list(dataset)) == 6


def test_a_worker_whose_threads_do_not_end_is_killed():
    def work(x):
        threading.Thread(target=time.sleep, args=(600,)).start()
        return os.getpid()

    dataset = data.range(2).map(work, 1, processes=True)
    process = int(dataset[0])
    del dataset
    until = time.monotonic() + 30
    while os.path.exists(f"/proc/{process}"):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert [int(x) for x in data.range(2).map(abs, 1, processes=True)] == [0, 1]


def test_a_worker_has_time_to_end_by_itself(tmp_path):
    def work(x):
        atexit.register((tmp_path / str(x)).touch)
        atexit.register(time.sleep, 0.05)  # is called first
        return os.getpid()

    for x in range(5):  # on a busy machine, a second may be too short
        dataset = data.range(x, x + 1).map(work, 1, processes=True)
        process = int(dataset[0])
        del dataset
        while os.path.exists(f"/proc/{process}"):
            time.sleep(0.01)
        if list(tmp_path.iterdir()):
            return
    raise AssertionError("the functions of atexit were not called")


@pytest.mark.parametrize("handler, how", [(signal.SIG_DFL, "was killed by signal 9"), (signal.SIG_IGN, "has ended")])
def test_a_process_that_a_worker_has_started_does_not_hide_its_end(tmp_path, handler, how):
    def work(x):
        child = os.fork()
        if child == 0:
            time.sleep(600)  # has copies of the worker's sockets
            os._exit(0)
        (tmp_path / str(child)).touch()
        os.kill(os.getpid(), signal.SIGKILL)

    old = signal.signal(signal.SIGCHLD, handler)  # SIG_IGN: the system waits for the processes
    try:
        with pytest.raises(kz.DataError, match=how):
            list(data.range(2).map(work, 1, processes=True))
    finally:
        signal.signal(signal.SIGCHLD, old)
        for child in tmp_path.iterdir():
            os.kill(int(child.name), signal.SIGKILL)


def test_an_element_that_is_too_large_for_the_memory_of_a_channel_is_an_error(monkeypatch):
    resource = pytest.importorskip("resource")
    old = resource.getrlimit(resource.RLIMIT_AS)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 30), old[1]))
    try:
        large = data.range(2).map(lambda x: np.zeros(400 << 20, np.uint8), 1, processes=True)
        with pytest.raises((kz.DataError, ValueError, MemoryError)):
            list(large)
        assert len(data.range(3).map(lambda x: np.zeros(1 << 20), 1, processes=True)[0]) == 1 << 20
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)
