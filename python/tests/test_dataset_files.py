"""Data sets of files, caches in files and snapshots, also in programs that are killed or run at the same time."""

import os
import pathlib
import sys
import threading

import numpy as np
import pytest
from dataset_programs import names

import karez as kz
from karez import data


def write(folder, **contents):
    for name, content in contents.items():
        (folder / f"{name}.bin").write_bytes(content)


def test_the_elements_are_the_bytes_of_the_files(tmp_path):
    write(tmp_path, b=b"two", a=b"", c=bytes(range(256)))
    files = data.from_files(str(tmp_path / "*.bin"))
    assert list(files.as_numpy()) == [b"", b"two", bytes(range(256))]
    assert len(files) == 3 and files[2] == bytes(range(256)) and files[-3] == b""
    assert [files[i] for i in (2, 0)] == [bytes(range(256)), b""]
    assert list(files.shuffle(seed=1).batch(3).as_numpy()) != [[b"", b"two", bytes(range(256))]]


def test_paths_may_be_strings_path_objects_and_lists(tmp_path):
    write(tmp_path, b=b"b", a=b"a", c=b"c")
    for paths in ([tmp_path / "c.bin", str(tmp_path / "[ab].bin")], (f"{tmp_path}/{n}.bin" for n in "cab")):
        assert list(data.from_files(paths)) == [b"c", b"a", b"b"]
    assert list(data.from_files(tmp_path / "b.bin")) == [b"b"]


def test_a_function_reads_the_files(tmp_path):
    for i in range(20):
        np.save(tmp_path / f"{i:02}.npy", np.full(3, i, np.float32))
    arrays = data.from_files(tmp_path / "*.npy", lambda path: (np.load(path), os.path.basename(path)))
    batches = list(arrays.map(lambda x, name: (2 * x, name), parallel=3).batch(10).as_numpy())
    assert np.array_equal(np.concatenate([x for x, _ in batches]), np.repeat(2 * np.arange(20), 3).reshape(20, 3))
    assert [name for _, group in batches for name in group] == [f"{i:02}.npy" for i in range(20)]


def test_names_need_not_be_text(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.bin"
    pathlib.Path(os.fsdecode(path)).write_bytes(b"x")
    assert list(data.from_files(tmp_path / "*", os.fsencode)) == [path]


def test_files_that_do_not_exist_are_errors_that_name_them(tmp_path):
    for paths in (tmp_path / "none.bin", [tmp_path / "*.bin"], tmp_path):
        with pytest.raises(kz.DataError, match=str(tmp_path)):
            data.from_files(paths)
    with pytest.raises(kz.UserError, match="at least one path"):
        data.from_files([])
    for paths in (3, [3], None, b"x", [b"x"], [["x"]]):
        with pytest.raises(kz.TypeError, match="from_files: expected a path"):
            data.from_files(paths)
    write(tmp_path, a=b"")
    with pytest.raises(kz.TypeError, match="from_files: expected a function, got int"):
        data.from_files(tmp_path / "a.bin", 3)
    files = data.from_files(tmp_path / "a.bin")
    os.remove(tmp_path / "a.bin")
    with pytest.raises(FileNotFoundError, match="a.bin"):
        list(files)


# Caches and snapshots

STORES = {
    "cache": lambda dataset, folder: dataset.cache(),
    "cache_file": lambda dataset, folder: dataset.cache(folder),
    "snapshot": lambda dataset, folder: dataset.snapshot(folder / "elements"),
}


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    return lambda dataset: STORES[request.param](dataset, tmp_path)


class Record:
    """An object that is not an array."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Record) and self.number == other.number


def element(i):
    """Element i, with all kinds of fields."""
    return {
        "image": np.full((i % 3, 2), i, np.float64),
        "bytes": np.arange(i, dtype=np.uint8),
        "names": [f"n{i}", (Record(i), None)],
        "numbers": (i, i / 2, i % 2 == 0, 2**70 + i),
        "empty": {},
    }


def assert_equal(a, b):
    if isinstance(b, np.ndarray):
        assert isinstance(a, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    elif isinstance(b, dict):
        assert list(a) == list(b)
        for key in b:
            assert_equal(a[key], b[key])
    elif isinstance(b, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b)
        for x, y in zip(a, b):
            assert_equal(x, y)
    else:
        assert a == b


def test_elements_of_every_kind_are_stored(store):
    calls = []

    def make(i):
        calls.append(int(i))
        return element(int(i))

    stored = store(data.range(12).map(make))
    for _ in range(3):
        elements = list(stored.as_numpy())
        assert len(elements) == 12
        for i, got in enumerate(elements):
            assert_equal(got, element(i))
    assert calls == list(range(12))


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int32", "int64", "bool", "uint8", "complex64", "U3"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_arrays_of_every_dtype_and_shape_are_stored(tmp_path, dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    stored = data.from_source([array, array]).snapshot(tmp_path / "s")
    for _ in range(2):
        for got in stored.as_numpy():
            assert_equal(np.asarray(got), array)


def test_rows_of_objects_are_stored(store):
    stored = store(data.from_source([{"text": t} for t in ("a", "b", "c")]).batch(2))
    for _ in range(2):
        assert list(stored.as_numpy()) == [{"text": ["a", "b"]}, {"text": ["c"]}]


def test_an_epoch_that_is_left_early_is_not_stored(store):
    runs = []

    def numbers():
        runs.append(len(runs))
        return iter([100 * runs[-1] + i for i in range(10)])

    stored = store(data.from_generator(numbers))
    next(iter(stored))
    assert [int(x) for x in stored.take(10)] == [100 + i for i in range(10)]  # `take` does not read the end
    with stored.iterator() as iterator:
        next(iter(iterator))
    loops = zip(stored.as_numpy(), stored.as_numpy())  # they may begin in any order
    streams = sorted([int(x) for x in stream] for stream in zip(*loops))
    assert streams == [[300 + i for i in range(10)], [400 + i for i in range(10)]]
    first = [int(x) for x in stored]
    assert first in streams
    assert all([int(x) for x in stored] == first for _ in range(3)) and len(runs) == 5


def test_an_error_stores_nothing(store, tmp_path):
    fails = [True]

    def f(x):
        if fails[0] and x == 3:
            raise ValueError("stop here")
        return x

    stored = store(data.range(5).map(f))
    with pytest.raises(ValueError, match="stop here"):
        list(stored)
    fails[0] = False
    assert [int(x) for x in stored] == [int(x) for x in stored] == [0, 1, 2, 3, 4]
    assert [name for name in names(tmp_path) if name != "elements"] == []


@pytest.mark.parametrize("kind", ["cache_file", "snapshot"])
def test_objects_that_pickle_rejects_are_errors(tmp_path, kind):
    stored = STORES[kind](data.range(3).map(lambda x: threading.Lock()), tmp_path)
    with pytest.raises(kz.TypeError, match="an object of type lock cannot be stored by pickle: "):
        list(stored)
    assert names(tmp_path) == []


def test_every_epoch_repeats_epoch_0(store):
    dataset = data.range(30).shuffle(seed=5).map(lambda x, rng: float(x) + rng.uniform(), rng=True)
    expected = [float(x) for x in dataset]
    stored = store(dataset)
    with stored.iterator() as iterator:
        iterator.start(4)
        assert [float(x) for x in iterator] == expected
        assert [float(x) for x in iterator] == expected and iterator.epoch == 5


@pytest.mark.parametrize("epoch", [0, 1])
def test_iterators_continue_at_their_positions(store, tmp_path, epoch):
    def make():
        return store(data.range(40).filter(lambda x: x % 3).shuffle(buffer=6, seed=2)).shuffle(buffer=50).batch(4)

    def remove():
        (tmp_path / "elements").unlink(missing_ok=True)

    def rest(iterator):
        return [batch.tolist() for batch in iterator.as_numpy()]

    with make().iterator() as iterator:
        iterator.start(epoch)
        expected = rest(iterator)
    assert sorted(sum(expected, [])) == [x for x in range(40) if x % 3] != sum(expected, [])
    for stop in (0, 1, 5):
        for exists in (False, True):
            if not exists:
                remove()
            with make().iterator() as iterator:
                iterator.start(epoch)
                loop = iterator.as_numpy()
                begin = [next(loop).tolist() for _ in range(stop)]
                state = iterator.state()
            for removed in (False, True):
                if removed:
                    remove()
                with make().iterator() as iterator:
                    iterator.load_state(state)
                    assert begin + rest(iterator) == expected


def test_a_snapshot_has_a_size_and_is_read_by_index(tmp_path):
    def make():
        return data.from_generator([{"x": i, "name": str(i)} for i in range(10)]).snapshot(tmp_path / "s")

    stored = make()
    with pytest.raises(kz.TypeError, match="not known before its elements are read"):
        len(stored)
    list(stored)
    for dataset in (stored, make()):
        assert len(dataset) == 10 and dataset[7]["name"] == "7" and int(dataset[-1]["x"]) == 9
        order = [int(row["x"]) for row in dataset.shuffle(seed=3).as_numpy()]
        assert sorted(order) == list(range(10)) != order


def test_another_data_set_and_damaged_files_are_errors(tmp_path):
    path = tmp_path / "s"
    list(data.range(5).snapshot(path))
    with pytest.raises(kz.DataError) as error:
        data.range(6).batch(2).snapshot(path)
    for part in (str(path), "range(0, 5, 1)", "batch(2", "range(0, 6, 1)", "Delete the file"):
        assert part in str(error.value)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(kz.DataError, match=f"{path} is not complete: it ends at byte {len(content) // 2} in record"):
        data.range(5).snapshot(path)
    path.write_bytes(content[:80] + bytes([content[80] ^ 1]) + content[81:])
    damaged = data.range(5).snapshot(path).as_numpy()
    with pytest.raises(kz.DataError, match=f"{path}: record 0 at byte "):
        list(damaged)


def test_wrong_paths_are_errors(tmp_path):
    for method in ("cache", "snapshot"):
        with pytest.raises(kz.TypeError, match=f"{method}: expected a path, got int"):
            getattr(data.range(3), method)(3)
        with pytest.raises(kz.DataError, match="none"):
            getattr(data.range(3), method)(tmp_path / "none" / "none")
    with pytest.raises(kz.TypeError, match="snapshot: expected a path, got NoneType"):
        data.range(3).snapshot(None)


class Gone:
    pass


def test_an_object_whose_class_is_gone_is_an_error(tmp_path, monkeypatch):
    list(data.range(2).map(lambda x: Gone()).snapshot(tmp_path / "s"))
    monkeypatch.delattr(sys.modules[__name__], "Gone")
    with pytest.raises(kz.DataError, match="a stored object cannot be restored by pickle: .*Gone"):
        list(data.range(2).map(lambda x: x).snapshot(tmp_path / "s"))
