"""Prefetching of batches by a thread: the order of batches, the number of slots, errors, and the end of a feed."""

import gc
import os
import subprocess
import sys
import threading
import time
import traceback
import weakref

import numpy as np
import pytest

import karez as kz

WAIT = 60  # seconds, for events that are immediate unless the code is broken


def numbered(count, shape=(4, 3)):
    return ((np.full(shape, i, np.float32), np.arange(4) + i) for i in range(count))


def is_freed(reference):
    """Waits until no thread uses the object of a weak reference."""
    deadline = time.monotonic() + WAIT
    while reference() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.001)
    return reference() is None


def test_batches_are_in_order_and_are_arguments_of_compiled_functions():
    step = kz.compile(lambda x, y: x.sum() + y.sum())
    losses = [step(x, y) for x, y in kz.data.feed(numbered(9), slots=3)]
    assert [float(loss) for loss in losses] == [12 * i + 6 + 4 * i for i in range(9)] and step.signatures() == 1


def test_a_batch_is_a_copy_and_can_be_reused():
    array, steps = np.ones((2, 2), np.float32), []

    def batches():
        for i in range(3):
            array[...] = i
            yield array

    step = kz.compile(lambda x: x + 1)
    for x in kz.data.feed(batches(), slots=3):
        steps.append((x, step(x), step(x)))
    for i, (x, item, two) in enumerate(steps):
        assert float(x[0, 0]) == i and float(item[1, 1]) == float(two[0, 1]) == i + 1


def test_nested_structures_are_kept_and_other_values_pass_unchanged():
    (((x, [y]), name),) = kz.data.feed([(({"a": np.ones(2)}, [np.int64(3)]), "first")])
    assert x["a"].dtype is kz.float64 and int(y) == 3 and name == "first"


def test_at_most_slots_batches_are_prefetched():
    requested, free = [], threading.Semaphore(0)

    def batches():
        for i in range(20):
            requested.append(i)
            free.release()
            yield np.full(1, i)

    feed = kz.data.feed(batches(), slots=3)
    for _ in range(3):
        assert free.acquire(timeout=WAIT)
    for consumed in range(10):
        assert int(next(feed)[0]) == consumed
        assert free.acquire(timeout=WAIT), "the free slot must be filled again"
        assert len(requested) <= consumed + 4
    feed.close()
    assert len(requested) <= 14 and list(feed) == []


class BlockingIterable:
    """Yields one batch. Before the second batch it blocks the thread until `resume` is set, then yields `then()`."""

    def __init__(self, then):
        self.then, self.reached, self.resume = then, threading.Event(), threading.Event()

    def __iter__(self):
        yield np.zeros(1)
        self.reached.set()
        assert self.resume.wait(WAIT)
        yield self.then()


def fails():
    raise OSError("the disk is full")


@pytest.mark.parametrize(
    "then",
    [lambda: np.ones(1), fails, lambda: np.zeros(1, np.int16), lambda: fails],
    ids=["batch", "error", "bad batch", "no array"],
)
def test_an_item_added_during_close_is_dropped(then):
    blocked_iterator = BlockingIterable(then)
    feed = kz.data.feed(blocked_iterator, slots=2, epochs=2)
    assert int(next(feed)[0]) == 0 and blocked_iterator.reached.wait(WAIT)
    feed.close()
    assert list(feed) == []  # the loop does not wait for the batch
    blocked_iterator.resume.set()
    assert list(feed) == []
    feed.close()
    with pytest.raises(StopIteration):
        next(feed)


def test_a_closed_feed_yields_no_ready_batches():
    filled = threading.Semaphore(0)

    def batches():
        for i in range(3):
            yield np.full(1, i)
            filled.release()  # the preceding batch is in its slot

    feed = kz.data.feed(batches(), slots=3)
    assert filled.acquire(timeout=WAIT) and filled.acquire(timeout=WAIT)
    assert int(next(feed)[0]) == 0
    feed.close()
    assert list(feed) == []


def test_another_thread_may_close_a_feed_while_the_loop_waits():
    blocked_iterator, batches_seen = BlockingIterable(lambda: np.ones(1)), []
    feed = kz.data.feed(blocked_iterator)
    loop = threading.Thread(target=lambda: batches_seen.extend(int(x[0]) for x in feed), daemon=True)
    loop.start()
    assert blocked_iterator.reached.wait(WAIT)
    closers = [threading.Thread(target=feed.close) for _ in range(4)]
    for each in closers:
        each.start()
    loop.join(WAIT)
    assert not loop.is_alive() and batches_seen in ([0], [])
    blocked_iterator.resume.set()
    for each in closers:
        each.join(WAIT)
    assert list(feed) == []


def test_the_iterable_may_close_the_feed_that_reads_it():
    feeds = []

    def batches():
        yield np.zeros(1)
        feeds[0].close()
        yield np.ones(1)

    begin = threading.Event()

    def batches_after_begin():
        assert begin.wait(WAIT)
        yield from batches()

    feeds.append(kz.data.feed(batches_after_begin()))
    begin.set()
    assert len(list(feeds[0])) <= 1


def test_an_exception_from_the_iterable_reaches_the_loop_with_its_traceback():
    def batches():
        yield np.zeros(1)
        raise OSError("the disk is full")

    batches_seen = []
    with pytest.raises(OSError, match="the disk is full") as caught:
        for x in kz.data.feed(batches()):
            batches_seen.append(x)
    assert len(batches_seen) == 1 and any(
        frame.name == "batches" for frame in traceback.extract_tb(caught.value.__traceback__)
    )
    feed = kz.data.feed([np.zeros(1, np.int16)])
    with pytest.raises(kz.TypeError, match="unsupported array dtype int16"):
        next(feed)
    assert list(feed) == []


def test_an_abandoned_loop_frees_its_iterable():
    def endless():
        i = 0
        while True:
            yield np.full(2, i)
            i += 1

    batches = endless()
    references = [weakref.ref(batches)]
    for _x in kz.data.feed(batches):
        break
    batches = endless()
    references.append(weakref.ref(batches))
    with kz.data.feed(batches) as feed:
        next(feed)
    del feed
    batches = endless()
    references.append(weakref.ref(batches))
    with pytest.raises(ValueError) as caught:
        for _x in kz.data.feed(batches):
            raise ValueError
    del batches, caught
    assert [is_freed(reference) for reference in references] == [True] * 3


def test_each_epoch_of_a_feed_has_a_new_order():
    batches = kz.data.Batches(np.arange(12), batch=4)
    batches_seen = [x.tolist() for x in kz.data.feed(batches, epochs=2)]
    assert (
        batches_seen == [batch.tolist() for number in range(2) for batch in batches.epoch(number)]
        and batches_seen[:3] != batches_seen[3:]
    )
    assert [int(x[0]) for x in kz.data.feed([np.ones(1), np.zeros(1)], epochs=2)] == [1, 0, 1, 0]


def test_each_loop_over_a_feed_yields_all_batches():
    feed = kz.data.feed([np.full(1, i) for i in range(3)], slots=1)
    assert [[int(x[0]) for x in feed] for _ in range(3)] == [[0, 1, 2]] * 3
    for _x in feed:
        break
    assert [int(x[0]) for x in feed] == [0, 1, 2], "a new loop must start again"
    each = iter(kz.data.feed([np.full(1, i) for i in range(3)]))
    assert int(next(each)[0]) == 0 and [int(x[0]) for x in each] == [1, 2], "a loop must continue an iterator"
    feed = kz.data.feed([np.full(1, i) for i in range(3)])
    assert int(next(feed)[0]) == 0 and [int(x[0]) for x in feed] == [1, 2]


def test_each_loop_over_a_feed_of_batches_runs_the_next_epoch():
    order = [np.concatenate(list(kz.data.Batches(np.arange(12), batch=4).epoch(n))).tolist() for n in range(4)]
    batches = kz.data.Batches(np.arange(12), batch=4)
    feed = kz.data.feed(batches)
    assert [[int(i) for x in feed for i in x.numpy()] for _ in range(3)] == order[:3]
    assert [int(i) for x in kz.data.feed(batches) for i in x.numpy()] == order[3], (
        "another feed must run the next epoch"
    )


@pytest.mark.parametrize(
    "options, text",
    [({"slots": 0}, "got 0 and 1"), ({"epochs": "x"}, "got 2 and 'x'"), ({"slots": 2.5}, "got 2.5 and 1")],
)
def test_invalid_slots_and_epochs_are_errors(options, text):
    with pytest.raises(kz.UserError, match=text):
        kz.data.feed([], **options)
    with pytest.raises(kz.TypeError, match="expected an iterable, got int"):
        kz.data.feed(3)


def test_training_with_a_feed_gives_the_losses_of_a_plain_loop():
    def losses(wrap):
        kz.worlds._end()
        net = kz.nn.Linear(3, 2)
        opt = kz.optim.Adam(net.parameters(), lr=0.1)

        @kz.compile
        def step(x, y):
            loss = kz.F.cross_entropy(net(x), y % 2)
            loss.backward()
            opt.step()
            return loss

        return [float(item) for item in [step(x, y) for x, y in wrap(numbered(8))]]

    assert losses(lambda batches: batches) == losses(kz.data.feed)


def test_a_feed_can_read_a_pytorch_data_loader():
    pytest.importorskip("torch")
    program = """
import torch
from torch.utils.data import DataLoader, TensorDataset
import karez as kz
x, y = torch.arange(40.).reshape(10, 4), torch.arange(10)
loader = DataLoader(TensorDataset(x, y), batch_size=5)
total = kz.compile(lambda x, y: x.sum() + y.sum())
assert sum(float(total(*batch)) for batch in kz.data.feed(loader)) == 780 + 45
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.path.dirname(kz.__path__[0])},
    )
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr
