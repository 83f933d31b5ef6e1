"""Positions of iterators: states, checkpoints, and generators with a state."""

import pytest

import karez as kz
from karez import data


def numbers(elements):
    return [int(x) for x in elements.as_numpy()]


class Counter:
    """An iterable with a state, as in torchdata."""

    def __init__(self):
        self.position, self.reads = 0, 0

    def __iter__(self):
        while self.position < 100:
            self.position += 1
            self.reads += 1
            yield self.position - 1
        self.position = 0

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


def test_a_generator_with_a_state_is_not_repeated():
    with data.from_generator(Counter()).batch(4).iterator() as iterator:
        loop = iterator.as_numpy()
        for _ in range(20):
            last = next(loop)
        state = iterator.state()
        assert last.tolist() == [76, 77, 78, 79]
    counter = Counter()
    with data.from_generator(counter).batch(4).iterator() as iterator:
        iterator.load_state(state)
        assert [x.tolist() for x in iterator.as_numpy()][0] == [80, 81, 82, 83]
    assert counter.reads <= 20 + 16


class Examples:
    """An iterable as the IterableDataset of Hugging Face: a loop begins at the loaded state if that is of the epoch,
    and until its first element the iterable has the state of the loop before."""

    def __init__(self):
        self.epoch, self.reads, self.loaded = 0, 0, None
        self.current = {"position": 0, "epoch": 0}

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        loaded = self.loaded if self.loaded and self.loaded["epoch"] == self.epoch else {"position": 0}
        self.current = {"position": loaded["position"], "epoch": self.epoch}
        while self.current["position"] < 100:
            self.current["position"] += 1
            self.reads += 1
            yield 1000 * self.epoch + self.current["position"] - 1

    def state_dict(self):
        return dict(self.current)

    def load_state_dict(self, state):
        self.loaded = state


@pytest.mark.parametrize("stop", [0, 10, 63])
@pytest.mark.parametrize("epoch", [0, 1])
def test_an_iterable_with_set_epoch_reads_each_epoch_from_its_beginning(epoch, stop):
    dataset = data.from_generator(Examples())
    expected = [list(range(100)), list(range(1000, 1100))]
    assert [numbers(dataset), numbers(dataset)] == expected
    with dataset.iterator() as iterator:
        for _ in range(epoch):
            numbers(iterator)
        loop = iterator.as_numpy()
        for _ in range(stop):
            next(loop)
        state = iterator.state()
    other = Examples()
    for resumed in (dataset, data.from_generator(other)):
        with resumed.iterator() as iterator:
            iterator.load_state(state)
            assert numbers(iterator) == expected[epoch][stop:]
            assert numbers(iterator) == list(range(1000 * (epoch + 1), 1000 * (epoch + 1) + 100))
        with resumed.iterator() as iterator:
            assert numbers(iterator) == expected[0], "a loaded state is forgotten"
    assert other.reads <= 100 - stop + 16 + 100 + 100


def test_an_iterable_with_set_epoch_needs_no_state():
    class Epochs:
        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            return iter(range(1000 * self.epoch, 1000 * self.epoch + 5))

    dataset = data.from_generator(Epochs())
    assert [numbers(dataset), numbers(dataset)] == [list(range(5)), list(range(1000, 1005))]
    with dataset.iterator() as iterator:
        numbers(iterator)
        loop = iterator.as_numpy()
        assert [int(next(loop)) for _ in range(2)] == [1000, 1001]
        state = iterator.state()
    with data.from_generator(Epochs()).iterator() as iterator:
        iterator.load_state(state)
        assert numbers(iterator) == [1002, 1003, 1004]


def test_a_state_must_consist_of_json_values():
    class NoJson(Counter):
        def state_dict(self):
            return {1, 2}

    with pytest.raises(kz.TypeError, match="the state_dict\\(\\) of a generator must consist of JSON values"):
        list(data.from_generator(NoJson()))


def test_a_closed_iterator_keeps_its_position():
    iterator = data.range(10).iterator()
    loop = iter(iterator)
    next(loop), next(loop)
    state = iterator.state()
    iterator.close()
    assert list(loop) == [] and iterator.state() == state == "epoch 0 (2)"
    unordered = data.range(10).map(lambda x: x, 2, deterministic=False).iterator()
    with pytest.raises(kz.UserError, match="deterministic=False"):
        unordered.state()


def test_a_state_of_another_data_set_is_an_error():
    with data.range(10).take(5).iterator() as iterator, data.range(10).batch(3).repeat(2).iterator() as other:
        next(iter(iterator))
        other.load_state(iterator.state())
        with pytest.raises(kz.DataError, match="saved by another pipeline"):
            list(other)
        with pytest.raises(kz.DataError, match="the state of an iterator"):
            other.load_state("nonsense")


def test_checkpoints_hold_the_positions_of_iterators(tmp_path):
    def pipeline():
        return data.range(30).shuffle(seed=2).batch(4, last="drop")

    model = kz.nn.Linear(2, 2)
    kz.compile(lambda: model(kz.ones(1, 2)))()
    train, test = pipeline().iterator(), data.range(9).iterator()
    loop = iter(train)
    for _ in range(3):
        next(loop)
    next(iter(test))
    kz.save(tmp_path / "c.safetensors", position=3, notes={"epoch": "0"}, data={"train": train, "test": test})
    rest = [x.numpy().tolist() for x in loop]
    resumed, other = pipeline().iterator(), data.range(9).iterator()
    assert kz.load(tmp_path / "c.safetensors", data={"train": resumed, "test": other}) == (3, {"epoch": "0"})
    assert [x.tolist() for x in resumed.as_numpy()] == rest and len(rest) == 4
    assert [int(x) for x in other.as_numpy()] == list(range(1, 9))
    with pytest.raises(
        kz.NameError, match="no position for the iterator 'valid'; it has positions for 'test', 'train'"
    ):
        kz.load(tmp_path / "c.safetensors", data={"valid": resumed})
