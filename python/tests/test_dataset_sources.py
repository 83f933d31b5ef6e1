"""Data sets of other libraries' objects, subsets and random splits."""

import sys
import threading

import numpy as np
import pytest

import karez as kz
from karez import data


class Tensor:
    """A stand-in for a tensor of another library: it has the protocols of NumPy and DLPack."""

    def __init__(self, array, numpy_has_dtype=True):
        self.array, self.numpy_has_dtype = array, numpy_has_dtype

    def __array__(self, dtype=None, copy=None):
        if not self.numpy_has_dtype:
            raise TypeError("Got unsupported ScalarType")
        return self.array if dtype is None else self.array.astype(dtype)

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class TorchDataset:
    """The protocol of torch.utils.data.Dataset."""

    def __len__(self):
        return 7

    def __getitem__(self, index):
        if not isinstance(index, int) or not 0 <= index < 7:
            raise IndexError(index)
        return Tensor(np.full((2, 3), index, np.float32)), index


class TorchLoader:
    """The protocol of a DataLoader, of an IterableDataset, and of data sets of tf.data by as_numpy_iterator."""

    def __init__(self, batches):
        self.batches, self.loops = batches, 0

    def __iter__(self):
        self.loops += 1
        for i in range(self.batches):
            yield [Tensor(np.full((4, 2), i + 10 * self.loops, np.float32)), Tensor(np.arange(4))]


class Rows:
    """The protocol of a data set of Hugging Face: rows are dicts, and a slice is a dict of lists."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {"text": "word " * index, "label": index % 2}

    def __iter__(self):
        return (self[i] for i in range(4))


@pytest.mark.parametrize("options", [{}, {"parallel": 2}, {"processes": True}, {"parallel": 3, "processes": False}])
def test_a_source_of_tensors_is_read_by_index_in_threads_or_workers(options):
    dataset = data.from_source(TorchDataset(), **options)
    rows = list(dataset.as_numpy())
    assert len(dataset) == 7 and [int(label) for _, label in rows] == list(range(7))
    assert all(x.dtype == np.float32 and x.shape == (2, 3) and (x == i).all() for i, (x, _) in enumerate(rows))
    assert int(dataset[-1][1]) == 6
    shuffled = dataset.shuffle(seed=1).batch(3, last="drop")
    assert [x.shape for x, _ in shuffled] == [(3, 2, 3)] * 2
    assert (" process" in dataset.explain_data()) == options.get("processes", "parallel" in options)


def test_a_loader_is_an_iterable_of_each_epoch():
    loader = TorchLoader(3)
    dataset = data.from_generator(loader)
    for loop in (1, 2):
        batches = list(dataset.as_numpy())
        assert [float(x[0, 0]) for x, _ in batches] == [10 * loop + i for i in range(3)]
    assert type(batches[0]) is list and batches[0][1].tolist() == [0, 1, 2, 3]
    again = data.from_generator(lambda: TorchLoader(2)).unbatch()
    assert [x[0].shape for x in again] == [(2,)] * 8


def test_rows_that_are_dicts_keep_their_keys():
    for dataset in (data.from_source(Rows()), data.from_source(Rows(), 2), data.from_generator(Rows())):
        assert [(row["text"], int(row["label"])) for row in dataset.as_numpy()] == [
            (f"{'word ' * i}", i % 2) for i in range(4)
        ]


def test_tensors_without_a_dtype_of_numpy_come_by_dlpack():
    arrays = [np.arange(6, dtype=dtype).reshape(2, 3) for dtype in ("f2", "f4", "i8")]
    tensors = [Tensor(array, numpy_has_dtype=False) for array in arrays]
    for dataset in (
        data.from_source(tensors),
        data.range(3).map(lambda i: tensors[int(i)], processes=False),
        data.range(3).map(lambda i: tensors[int(i)], 2, processes=True),
    ):
        for found, array in zip(dataset.as_numpy(), arrays):
            assert found.dtype == array.dtype and found.tolist() == array.tolist()


def test_errors_of_the_protocol_of_numpy_arrive():
    class Unreadable(Tensor):
        def __array__(self, dtype=None, copy=None):
            raise ValueError("not on this device")

    class Untyped:
        def __array__(self, dtype=None, copy=None):
            raise TypeError("no dtype")

    for wrong, error, text in (
        (Unreadable(np.ones(3)), ValueError, "not on this device"),
        (Untyped(), TypeError, "no dtype"),
    ):
        with pytest.raises(error, match=text):
            list(data.from_source([wrong]))


def test_tensors_of_pytorch_are_elements_without_a_copy_by_hand():
    torch = pytest.importorskip("torch")

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            return torch.full((2,), float(i * i)), torch.ones(3, dtype=torch.bfloat16)

    for dataset in (data.from_source(Squares()), data.from_source(Squares(), 2)):
        rows = list(dataset)
        assert [float(x.numpy()[0]) for x, _ in rows] == [i * i for i in range(6)]
        assert str(rows[0][1].dtype).endswith("bfloat16")
    loader = torch.utils.data.DataLoader(torch.arange(6).float(), batch_size=2)
    assert [x.tolist() for x in data.from_generator(loader).as_numpy()] == [[0, 1], [2, 3], [4, 5]]


def test_torch_is_not_imported():
    before = set(sys.modules)
    list(data.from_source(TorchDataset()))
    assert "torch" not in set(sys.modules) - before


def test_a_subset_has_the_elements_of_its_indices_in_this_order():
    squares = data.range(10).map(lambda x: x * x)
    chosen = squares.subset([3, 0, 3, -1, 9])
    assert [int(x) for x in chosen] == [9, 0, 9, 81, 81] and len(chosen) == 5 and int(chosen[3]) == 81
    assert [int(x) for x in chosen.batch(2, last="drop").unbatch()] == [9, 0, 9, 81]
    assert list(squares.subset([])) == [] and len(squares.subset(np.arange(4))) == 4
    assert sorted(int(x) for x in squares.subset(range(4)).shuffle()) == [0, 1, 4, 9]
    assert [int(x) for x in squares.map(lambda x: x + 1, 2).subset([2, 1])] == [5, 2]
    shuffled = data.range(100).shuffle(seed=2)
    epochs = [[int(x) for x in shuffled] for _ in range(2)]
    subset = data.range(100).shuffle(seed=2).subset([5, 50])
    for epoch in epochs:
        assert [int(x) for x in subset] == [epoch[5], epoch[50]]


def test_a_position_in_a_subset_continues():
    subset = data.range(20).subset([7, 3, 11, 5]).map(lambda x: x * 2, 2)
    with subset.iterator() as iterator:
        loop = iter(iterator)
        assert [int(next(loop)) for _ in range(2)] == [14, 6]
        state = iterator.state()
    with subset.iterator() as iterator:
        iterator.load_state(state)
        assert [int(x) for x in iterator] == [22, 10]


def test_wrong_subsets_are_errors():
    numbers = data.range(5)
    for index in (5, -6):
        with pytest.raises(
            kz.UserError, match=f"subset: index {index if index > 0 else -1} does not exist: .* has 5 elements"
        ):
            numbers.subset([0, index])
    with pytest.raises(kz.TypeError, match="subset: indices must be an iterable of integers, got \\[0.5\\]"):
        numbers.subset([0.5])
    with pytest.raises(kz.UserError, match="subset: the elements of the data set cannot be read by index"):
        numbers.filter(lambda x: True).subset([0])
    assert "hash" in repr(numbers.subset([1])) and repr(numbers.subset([1])) != repr(numbers.subset([2]))


def test_a_random_split_divides_all_elements():
    numbers = data.range(10)
    for lengths, sizes in (([7, 3], [7, 3]), ([0.5, 0.25, 0.25], [6, 2, 2]), ([10, 0], [10, 0]), ([0.9, 0.1], [9, 1])):
        parts = data.random_split(numbers, lengths, seed=3)
        assert [len(part) for part in parts] == sizes
        assert sorted(int(x) for part in parts for x in part) == list(range(10))
    a, b, c = ([int(x) for x in data.random_split(numbers, [10], seed)[0]] for seed in (1, 1, 2))
    assert a == b != c and a != sorted(a)
    for wrong in ([5, 6], [-1, 11], [0.5, 0.6], [], [5.0, 5.0]):
        with pytest.raises(kz.UserError, match="random_split"):
            data.random_split(numbers, wrong)
    with pytest.raises(kz.TypeError, match="the number of elements of this data set is not known"):
        data.random_split(numbers.filter(lambda x: True), [10])
    assert [len(part) for part in data.random_split(data.range(1), [1, 0])] == [1, 0]
    assert data.random_split(data.range(0), []) == []


def test_shards_of_a_shuffle_are_those_of_a_distributed_sampler():
    """Every rank reads every ranks-th element of one permutation, another one in each epoch."""
    shuffled = data.range(10).shuffle(seed=4)
    shards = [shuffled.shard(3, rank) for rank in range(3)]
    epochs = [[[int(x) for x in shard] for shard in shards] for _ in range(2)]
    for epoch in epochs:
        assert sorted(x for shard in epoch for x in shard) == list(range(10)) and [len(s) for s in epoch] == [4, 3, 3]
    assert epochs[0] != epochs[1]


class Counter:
    """An iterator with a state, of which all loops are loops over the same object."""

    def __init__(self):
        self.i = 0

    def __iter__(self):
        self.i = 0
        return self

    def __next__(self):
        if self.i == 5:
            raise StopIteration
        self.i += 1
        return self.i - 1

    def state_dict(self):
        return {"i": self.i}

    def load_state_dict(self, state):
        self.i = state["i"]


class Loader(Counter):
    """Like a DataLoader with persistent workers: `iter` resets an iterator that the last loop may be using."""

    persistent_workers = True

    def __init__(self):
        super().__init__()
        self.entered, self.proceed, self.is_reading = threading.Event(), threading.Event(), False

    def __iter__(self):
        assert not self.is_reading, "iter was called during next"
        return super().__iter__()

    def __next__(self):
        self.is_reading = True
        if self.i == 2:
            self.entered.set()
            assert self.proceed.wait(30)
        self.is_reading = False
        return super().__next__()


def test_a_loop_over_a_shared_iterator_waits_for_the_loop_before():
    loader = Loader()
    dataset = data.from_generator(loader)
    for x in dataset.as_numpy():
        assert int(x) == 0 and loader.entered.wait(30)
        break  # while `next` computes an element ahead of the loop
    found = []
    other = threading.Thread(target=lambda: found.extend(int(x) for x in dataset.as_numpy()))
    other.start()
    other.join(0.2)  # until it waits for `next`
    loader.proceed.set()
    other.join(30)
    assert found == list(range(5))


def test_a_loop_over_an_iterator_with_a_state_ends_the_one_before():
    dataset = data.from_generator(Counter())
    first = dataset.iterator(slots=1).as_numpy()
    assert int(next(first)) == 0
    assert [int(x) for x in dataset.as_numpy()] == list(range(5))
    with pytest.raises(kz.UserError, match="another loop reads the Counter, whose loops share one iterator"):
        list(first)
