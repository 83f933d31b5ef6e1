"""Functions of data sets in worker processes: their elements, arguments and results."""

import collections
import enum
import functools
import os
import re

import numpy as np
import pytest
from dataset_programs import run

import karez as kz
from karez import data

Point = collections.namedtuple("Point", "x y")


class Colour(enum.IntEnum):
    RED = 2


class Label:
    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        return type(self) is type(other) and self.text == other.text

    def longer(self, x):
        return self.text + str(x)

    @classmethod
    def make(cls, x):
        return cls(str(x))

    @staticmethod
    def twice(x):
        return x * 2


class Holder:
    """An array by NumPy's protocol, as a tensor of another library is."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype)


def same(a, b):
    """Whether two elements are equal, with types, dtypes and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return (
            a.dtype == b.dtype and a.shape == b.shape and (a.tobytes() == b.tobytes() or bool((a == b).all()))
        ) and a.flags.writeable == b.flags.writeable
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a == b or (a != a and b != b)


def both(dataset, f, *, parallel=2, **options):
    """The elements with processes, after checking that they are those with threads."""
    here = list(dataset.map(f, parallel, processes=False, **options).as_numpy())
    there = list(dataset.map(f, parallel, processes=True, **options).as_numpy())
    assert len(here) == len(there)
    assert [(a, b) for a, b in zip(here, there) if not same(a, b)] == []
    return there


ARRAYS = [
    *(np.arange(6).reshape(2, 3).astype(dtype) for dtype in ("f4", "f8", "f2", "i4", "i8", "u1", "?")),
    *(np.arange(6).reshape(2, 3).astype(dtype) for dtype in ("u2", "i1", "c8", "U3", "O", "M8[s]")),
    np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    np.zeros((0,), np.float32),
    np.zeros((3, 0, 2), np.int64),
    np.float32(3).reshape(()),
    np.float64(np.nan),
    np.asfortranarray(np.arange(35.0).reshape(5, 7)),
    np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)[::2],
    np.arange(10)[::-3],
    np.broadcast_to(np.float32(1), (3, 4)),
    np.arange(4097, dtype=np.uint8),
    np.arange(4096, dtype=np.uint8),
    np.random.default_rng(1).normal(size=(301, 999)),
    np.zeros((1,) * 20, np.float32),
    np.bool_(True),
    np.int32(7),
]
OTHERS = [
    *(
        True,
        0,
        -1,
        2**63 - 1,
        2**63,
        -(2**63),
        -(2**63) - 1,
        1.5,
        float("inf"),
        1e300,
        1j,
        None,
        "",
        "text",
        "\0ü",
        b"",
        b"\0bytes",
    ),
    *(Colour.RED, Point(1, "b"), (), [], {}, ((),), [1, [2.0, ("c",)]], {"a": 1, "b": {"c": [np.ones(3), "d"]}}),
    *(np.float64(1.5), np.str_("s"), frozenset({1}), range(3), int, len, Ellipsis, "x" * 5000, b"y" * 100_000),
]


def test_results_of_all_kinds_are_as_with_threads():
    values = [*ARRAYS, *OTHERS, Label("a"), Holder(np.arange(3)), Holder(np.ones((70, 70)))]
    both(data.range(len(values)), lambda i: values[int(i)])
    both(data.range(len(values)), lambda i: (values[int(i)], {"x": [values[-int(i)]]}))
    for processes in (True, False):
        with pytest.raises(kz.TypeError, match="unsupported array dtype >f4"):
            list(data.range(1).map(lambda i: np.zeros(3, ">f4"), 2, processes=processes))


def test_a_number_beyond_float32_is_infinite_without_a_warning():
    program = "print([float(x) for x in data.range(2).map(lambda x: -1e300, 2, processes=True).as_numpy()])"
    assert run(program) == (0, "[-inf, -inf]\n", "")


def test_arguments_of_all_kinds_are_as_with_threads():
    values = [*ARRAYS, *OTHERS, Label("a")]
    rows = data.from_source([(value,) for value in values])

    def described(x):
        is_array = isinstance(x, np.ndarray)
        return x, str(type(x)), (x.dtype.str, str(x.shape), x.flags.writeable) if is_array else ""

    assert len(both(rows, described)) == len(values)
    nested = data.from_source([{"a": value, "b": [value, (value, 1)]} for value in values])
    both(nested, lambda row: (row["b"], list(row)))
    both(data.from_source([(np.ones(3), "a", 2.5)] * 3), lambda x, text, number: (text, number, x))


def test_batches_of_objects_and_of_skipped_records_are_arguments():
    words = data.from_source([(str(i), np.full(3, i, np.uint16), i) for i in range(5)]).batch(2)
    both(words, lambda text, array, number: (text, array, number, str(type(text)), str(array.dtype)))
    usable = data.range(7).map(lambda i: data.SKIP if i % 3 == 0 else i)
    both(usable.batch(3, last="pad"), lambda x, weight: (x, weight))
    assert [int(x) for x in usable.map(lambda x: x + 1, 2, processes=True)] == [2, 3, 5, 6]


def test_skip_in_a_worker_skips_the_record():
    usable = data.range(6).map(lambda x: data.SKIP if x == 2 else x, 2, processes=True).batch(3, last="pad")
    assert [(x.tolist(), weight.tolist()) for x, weight in usable.as_numpy()] == [
        ([0, 1, 0], [1, 1, 0]),
        ([3, 4, 5], [1, 1, 1]),
    ]


def test_a_filter_in_workers_keeps_what_is_true():
    numbers = data.range(20)
    assert [int(x) for x in numbers.filter(lambda x: x % 3 == 0, 2, processes=True)] == [0, 3, 6, 9, 12, 15, 18]
    assert [int(x) for x in numbers.filter(lambda x: [] if x else "yes", 2)] == [0]
    with pytest.raises(ValueError, match="truth value"):
        list(numbers.filter(lambda x: np.ones(2), 2, processes=True))


def test_random_functions_do_not_depend_on_processes():
    def noisy(x, rng):
        return x + rng.normal(), rng.integers(2**60), rng.permutation(3)

    numbers = data.range(10).shuffle(seed=3)
    both(numbers, noisy, rng=True, seed=5)
    epochs = numbers.map(noisy, 2, rng=True, processes=True)
    a, b = [sorted(float(x[0]) for x in epochs.as_numpy()) for _ in range(2)]
    assert a != b


def test_functions_of_many_kinds_travel():
    label = Label("a")
    prefix = "p"

    def nested(x):
        def inner():
            return prefix + str(x)

        return inner()

    def recursive(x):
        return 1 if x <= 1 else int(x) * recursive(int(x) - 1)

    numbers = data.range(4)
    for f in (
        nested,
        recursive,
        label.longer,
        Label.make,
        Label.twice,
        functools.partial(np.add, 3),
        np.sqrt,
        str,
        abs,
    ):
        both(numbers, f)
    both(numbers, lambda x: Label(str(x)))


def test_by_default_several_lanes_are_processes_if_the_function_can_travel():
    lock = __import__("threading").Lock()

    def locked(x):
        with lock:
            return x, os.getpid()

    def where(*arguments, f=lambda x: (x, os.getpid()), **options):
        return {int(pid) for _, pid in data.range(8).map(f, *arguments, **options).as_numpy()}

    own = {os.getpid()}
    assert where() == where(1) == where(4, processes=False) == where(2, f=locked) == own
    assert own.isdisjoint(where(2)) and own.isdisjoint(where(1, processes=True)) and len(where(1, processes=True)) == 1
    inner = data.range(2).flat_map(lambda i: data.range(3).map(lambda x: (x, os.getpid()), 2))
    assert {int(pid) for _, pid in inner.as_numpy()} == own


def test_a_function_that_cannot_travel_is_an_error_that_says_what_to_do():
    file = open(__file__, "rb")  # noqa: SIM115

    def read(x, where=file):
        return where.read(int(x))

    def close(x):
        return file.close()

    for f, name in ((read, "where"), (close, "file")):
        with pytest.raises(
            kz.TypeError,
            match=rf"map\({f.__name__}\): the function cannot be sent.*{name} \(of type BufferedReader\).*"
            "processes=False.*open a file there",
        ):
            data.range(3).map(f, 2, processes=True)
    with pytest.raises(kz.TypeError, match="filter: the function cannot be sent.*a compiled function"):
        data.range(3).filter(kz.compile(lambda x: x), 2, processes=True)
    file.close()
    for wrong in ("ignore", None):
        with pytest.raises(kz.UserError, match="on_worker_exit must be 'raise' or 'restart', got"):
            data.range(3).map(abs, 2, on_worker_exit=wrong)
    for parallel in (0, 1025):
        with pytest.raises(kz.UserError, match=f"parallel must be between 1 and 1024, got {parallel}"):
            data.range(3).map(abs, parallel, processes=True)


def test_tensors_in_a_worker_are_an_error():
    with pytest.raises(kz.UserError, match="a worker process of a data set has no devices.*processes=False"):
        list(data.range(3).map(lambda x: kz.zeros(3), 2))


def test_arguments_that_a_function_keeps_do_not_change():
    kept = []

    def keep(x):
        kept.append(x[1:])
        return np.array([float(array.min()) for array in kept] + [float(array.max()) for array in kept])

    arrays = np.repeat(np.arange(8.0), 5000).reshape(8, 5000)
    found = list(data.from_arrays(arrays).map(keep, 1, processes=True).as_numpy())
    assert [x.tolist() for x in found] == [[*range(i + 1), *range(i + 1)] for i in range(8)]
    both(data.from_arrays(arrays), lambda x: x[::-2], parallel=1)


def test_elements_of_changing_size_grow_the_shared_memory():
    sizes = [10, 3_000_000, 5, 0, 2_000_000, 700, 6_000_000]
    dataset = data.range(len(sizes)).map(lambda i: np.full(sizes[int(i)], i, np.int32))
    found = list(dataset.map(lambda x: x + 1, 2, processes=True).as_numpy())
    assert [len(x) for x in found] == sizes and all((x == i + 1).all() for i, x in enumerate(found))


def test_a_position_continues_with_the_same_elements_in_threads_and_processes():
    def dataset(processes):
        shuffled = data.range(40).shuffle(seed=4)
        mapped = shuffled.map(lambda x, rng: x * 1000 + rng.integers(1000), 2, processes=processes, rng=True)
        return mapped.filter(lambda x: x % 3 > 0, 2, processes=processes).batch(3)

    expected = [x.tolist() for x in dataset(False).as_numpy()]
    for before, after in ((True, True), (True, False), (False, True)):
        with dataset(before).iterator() as iterator:
            loop = iterator.as_numpy()
            first = [next(loop).tolist() for _ in range(4)]
            state = iterator.state()
        with dataset(after).iterator() as iterator:
            iterator.load_state(state)
            assert first + [x.tolist() for x in iterator.as_numpy()] == expected


def test_two_iterators_and_an_index_use_the_same_workers():
    dataset = data.range(50).map(lambda x: (x * x, os.getpid()), 2, processes=True)
    with dataset.iterator() as a, dataset.iterator() as b:
        pairs = list(zip(a.as_numpy(), b.as_numpy()))
    assert [(int(x[0]), int(y[0])) for x, y in pairs] == [(i * i, i * i) for i in range(50)]
    assert int(dataset[7][0]) == 49 and int(dataset[-1][0]) == 49 * 49
    assert len({int(pid) for x, y in pairs for _, pid in (x, y)} | {int(dataset[3][1])}) <= 2
    text = dataset.explain_data()
    assert "map(parallel=2) in 2 processes: " in text
    sizes = dict(re.findall(r"(\d+) \((\d+) MiB\)", text))
    assert 1 <= int(sizes[str(int(pairs[0][0][1]))]) < 1000
    assert "processes" not in repr(dataset)


def test_the_order_may_be_that_of_completion():
    numbers = data.range(30).map(lambda x: x, 3, processes=True, deterministic=False)
    assert sorted(int(x) for x in numbers) == list(range(30))


def test_workers_end_with_their_data_set():
    dataset = data.range(5).map(lambda x: os.getpid(), 2, processes=True)
    pids = {int(x) for x in dataset}
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    del dataset
    for pid in pids:
        while os.path.exists(f"/proc/{pid}"):
            os.sched_yield()


def test_workers_have_a_lower_priority_than_the_program():
    program = os.getpriority(os.PRIO_PROCESS, os.getpid())
    dataset = data.range(4).map(lambda x: os.getpriority(os.PRIO_PROCESS, os.getpid()), 2, processes=True)
    assert {int(nice) for nice in dataset.as_numpy()} == {min(program + 5, 19)}


def test_workers_have_one_thread_in_libraries_and_the_cores_of_data(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "3")
    kz.init(data_cores=1)

    def settings(x):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        return [os.environ[name] for name in names], sorted(os.sched_getaffinity(0))

    def cores(x):
        return sorted(os.sched_getaffinity(0))

    here = next(data.range(2).map(cores, 2, processes=False).as_numpy())
    threads, there = next(data.range(2).map(settings, 2, processes=True).as_numpy())
    assert threads[0] == threads[1] and threads[2] == "3" and len(here) == 1 and there == here
