"""Data sets: every function against a model in plain Python and NumPy, on random streams."""

import itertools
import random

import numpy as np
import pytest

import karez as kz
from karez import data


def numbers(dataset, epoch=0):
    """The elements of an epoch, as Python numbers or lists."""
    iterator = dataset.iterator()
    iterator.start(epoch)
    with iterator:
        return [np.asarray(element).tolist() for element in iterator.as_numpy()]


# Each function draws its arguments and returns (name, apply to a data set, apply to a list). The elements are numbers.
def draw_map(rng):
    parallel = rng.choice([1, 3])
    return f"map({parallel})", lambda d: d.map(lambda x: 2 * x + 1, parallel), lambda v: [2 * x + 1 for x in v]


def draw_filter(rng):
    return "filter", lambda d: d.filter(lambda x: x % 3 > 0, rng.choice([1, 2])), lambda v: [x for x in v if x % 3]


def draw_take(rng):
    n = rng.randrange(20)
    return f"take({n})", lambda d: d.take(n), lambda v: v[:n]


def draw_skip(rng):
    n = rng.randrange(6)
    return f"skip({n})", lambda d: d.skip(n), lambda v: v[n:]


def draw_shard(rng):
    n = rng.randrange(1, 4)
    index = rng.randrange(n)
    return f"shard({n}, {index})", lambda d: d.shard(n, index), lambda v: v[index::n]


def draw_repeat(rng):
    n = rng.randrange(4)
    return f"repeat({n})", lambda d: d.repeat(n), lambda v: v * n


def batches(values, n, shift, last):
    groups = [values[i : i + n] for i in range(0, len(values), shift)]
    return [group for group in groups if len(group) == n or last == "keep"]


def draw_batch(rng):
    n, last = rng.randrange(1, 6), rng.choice(["keep", "drop"])
    return (
        f"batch({n}, {last}).sum",
        lambda d: d.batch(n, last).map(lambda x: x.sum() + len(x)),
        lambda v: [sum(group) + len(group) for group in batches(v, n, n, last)],
    )


def draw_window(rng):
    n, shift, last = rng.randrange(1, 6), rng.randrange(1, 7), rng.choice(["keep", "drop"])
    return (
        f"window({n}, {shift}, {last}).sum",
        lambda d: d.window(n, shift, last).map(lambda x: (x * np.arange(1, len(x) + 1)).sum()),
        lambda v: [sum(x * (i + 1) for i, x in enumerate(group)) for group in batches(v, n, shift, last)],
    )


def draw_unbatch(rng):
    n = rng.randrange(1, 6)
    return f"batch({n}).unbatch", lambda d: d.batch(n).unbatch(), lambda v: v


def draw_flat_map(rng):
    return (
        "flat_map",
        lambda d: d.flat_map(lambda x: [int(x)] * (int(x) % 3)),
        lambda v: [x for x in v for _ in range(x % 3)],
    )


def in_turn(values, cycle, block):
    """The elements of iterables, taken in turn from `cycle` of them."""
    waiting = iter(values)
    places = [iter([x] * (x % 3)) for x in itertools.islice(waiting, cycle)]
    out, turn = [], 0
    while places:
        taken = 0
        while taken < block and turn < len(places):
            try:
                out.append(next(places[turn]))
                taken += 1
            except StopIteration:
                taken = 0
                following = next(waiting, None)
                if following is None:
                    del places[turn]
                    turn -= 1
                    break
                places[turn] = iter([following] * (following % 3))
        turn = (turn + 1) % len(places) if places else 0
    return out


def draw_interleave(rng):
    cycle, block, parallel = rng.randrange(1, 5), rng.randrange(1, 4), rng.random() < 0.5
    return (
        f"interleave({cycle}, {block}, {parallel})",
        lambda d: d.interleave(lambda x: [int(x)] * (int(x) % 3), cycle, block, parallel),
        lambda v: in_turn(v, cycle, block),
    )


def draw_concat(rng):
    n = rng.randrange(5)
    return f"concat(range({n}))", lambda d: data.concat(d, data.range(n)), lambda v: v + list(range(n))


def draw_zip(rng):
    n = rng.randrange(30)
    return (
        f"zip(range({n}))",
        lambda d: data.zip(d, data.range(n)).map(lambda x, y: 5 * x + y),
        lambda v: [5 * x + y for x, y in zip(v, range(n))],
    )


def draw_buckets(rng):
    boundaries, sizes = [1, 2], [rng.randrange(1, 4) for _ in range(3)]

    def model(values):
        buckets, out = [[], [], []], []
        for x in values:
            bucket = buckets[x % 3]
            bucket.append(x)
            if len(bucket) == sizes[x % 3]:
                out.append(sum(bucket))
                bucket.clear()
        return out + [sum(bucket) for bucket in buckets if bucket]

    return (
        f"bucket_by_length({sizes}).sum",
        lambda d: d.bucket_by_length(lambda x: x % 3, boundaries, sizes).map(lambda x: x.sum()),
        model,
    )


def draw_cache(rng):
    return "cache", lambda d: d.cache(), lambda v: v


def draw_prefetch(rng):
    n = rng.randrange(1, 5)
    return f"prefetch({n})", lambda d: d.prefetch(n), lambda v: v


DRAWS = [value for name, value in list(globals().items()) if name.startswith("draw_")]


@pytest.mark.parametrize("seed", range(60))
def test_random_data_sets_equal_their_models(seed):
    rng = random.Random(seed)
    values = [rng.randrange(50) for _ in range(rng.choice([0, 1, 7, 40]))]
    sources = [
        lambda: data.from_arrays(np.array(values, np.int64)) if values else data.range(0),
        lambda: data.from_source(values),
        lambda: data.from_generator(lambda: iter(values)),
        lambda: data.from_generator(values),
    ]
    dataset, expected, names = rng.choice(sources)(), list(values), []
    for _ in range(rng.randrange(1, 6)):
        name, stage, model = rng.choice(DRAWS)(rng)
        names.append(name)
        dataset, expected = stage(dataset), model(expected)
    for epoch in range(2):
        assert numbers(dataset, epoch) == expected, names


@pytest.mark.parametrize("seed", range(40))
def test_iterators_resume_at_any_element(seed):
    rng = random.Random(1000 + seed)
    values = [rng.randrange(50) for _ in range(40)]
    dataset = data.from_generator(lambda: iter(values)) if seed % 2 else data.from_arrays(np.array(values))
    if seed % 3 == 0:
        dataset = dataset.shuffle(buffer=rng.randrange(1, 12), seed=seed)
    for _ in range(rng.randrange(1, 5)):
        dataset = rng.choice(DRAWS)(rng)[1](dataset)
    epoch = rng.randrange(3)
    with dataset.iterator() as iterator, dataset.iterator(slots=1) as resumed:
        iterator.start(epoch)
        expected = [np.asarray(x).tolist() for x in iterator.as_numpy()]
        iterator.start(epoch)
        loop = iterator.as_numpy()
        for read in range(rng.randrange(len(expected) + 1)):
            assert np.asarray(next(loop)).tolist() == expected[read]
        state = iterator.state()
        resumed.load_state(state)
        rest = [np.asarray(x).tolist() for x in loop]
        assert [np.asarray(x).tolist() for x in resumed.as_numpy()] == rest
        assert rest == expected[len(expected) - len(rest) :]


def test_padded_batches_equal_numpys():
    rng = np.random.default_rng(7)
    rows = [rng.normal(size=(rng.integers(0, 5), rng.integers(1, 4))).astype(np.float32) for _ in range(11)]
    dataset = data.from_source(rows)
    for group, batch in zip(
        itertools.batched(rows, 4) if hasattr(itertools, "batched") else [rows[i : i + 4] for i in range(0, 11, 4)],
        dataset.padded_batch(4).as_numpy(),
    ):
        expected = np.zeros((len(group), max(len(r) for r in group), max(r.shape[1] for r in group)), np.float32)
        for i, row in enumerate(group):
            expected[i, : row.shape[0], : row.shape[1]] = row
        np.testing.assert_array_equal(batch, expected)
    for batch in dataset.padded_batch(4, [[6, -1]]).as_numpy():
        assert batch.shape[1] == 6
    with pytest.raises(kz.ShapeError, match="more than the given size 3"):
        list(dataset.padded_batch(11, [[3, 3]]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "bool", "uint8", "int16"])
def test_batches_keep_dtypes_and_values(dtype):
    array = (np.arange(35).reshape(7, 5) % 2).astype(dtype)
    for rows in (data.from_arrays(array), data.from_source(list(array)), data.from_generator(list(array))):
        got = list(rows.batch(3).as_numpy())
        assert [len(batch) for batch in got] == [3, 3, 1] and got[0].dtype == array.dtype
        np.testing.assert_array_equal(np.concatenate(got), array)


def test_a_generator_object_has_one_pass():
    dataset = data.from_generator(x for x in range(3))
    assert numbers(dataset) == [0, 1, 2]
    with pytest.raises(kz.UserError, match="a generator can be read only once"):
        list(dataset)
    kept = data.from_generator(iter([4, 5])).cache()
    assert numbers(kept) == numbers(kept) == [4, 5]


def test_results_of_functions_keep_their_dtypes():
    doubles = data.from_arrays(np.array([1e300, 2.0])).map(lambda x: x + 1)
    assert [x.dtype for x in doubles.as_numpy()] == [np.float64] * 2 and numbers(doubles) == [1e300, 3.0]
    assert numbers(data.from_source(np.array([1e300]))) == [1e300]


def test_arrays_of_other_dtypes_are_not_padded():
    dataset = data.from_arrays(np.zeros((3, 2), np.int16), np.zeros(3, np.float32))
    with pytest.raises(kz.TypeError, match="field 0 is not an array of a dtype that tensors have"):
        list(dataset.batch(2, last="pad"))


def test_nested_elements_keep_their_structure():
    rows = [{"image": np.full((2, 2), i, np.float32), "name": f"row {i}", "boxes": [i, (i, 0.5)]} for i in range(4)]
    assert [row["name"] for row in data.from_source(rows).as_numpy()] == [f"row {i}" for i in range(4)]
    (batch, _) = data.from_source(rows).batch(2).as_numpy()
    assert batch["name"] == ["row 0", "row 1"] and batch["image"].shape == (2, 2, 2)
    number, (same, half) = batch["boxes"]
    assert number.tolist() == same.tolist() == [0, 1] and half.dtype == np.float32 and half.tolist() == [0.5, 0.5]


def test_loops_yield_tensors_that_compiled_functions_read():
    x, y = np.arange(24, dtype=np.float32).reshape(12, 2), np.arange(12)
    step = kz.compile(lambda x, y: x.sum() + y.sum())
    dataset = data.from_arrays(x, y).batch(4)
    losses = [float(step(a, b)) for a, b in dataset]
    assert losses == [float(x[i : i + 4].sum() + y[i : i + 4].sum()) for i in (0, 4, 8)]
    assert step.signatures() == 1


def test_padding_has_weight_zero():
    got = list(data.from_arrays(np.arange(5), np.ones((5, 2), np.float32)).batch(3, last="pad").as_numpy())
    assert [weights.tolist() for _, _, weights in got] == [[1, 1, 1], [1, 1, 0]]
    assert got[1][0].tolist() == [3, 4, 0] and got[1][1].tolist() == [[1, 1], [1, 1], [0, 0]]
    assert [w.tolist() for _, w in data.range(2).batch(3, last="pad").as_numpy()] == [[1, 1, 0]]


def test_each_loop_runs_the_next_epoch():
    dataset = data.range(50).shuffle(seed=3)
    first, second = [int(x) for x in dataset], [int(x) for x in dataset]
    assert first != second and sorted(first) == sorted(second) == list(range(50))
    assert first == numbers(dataset, 0) and second == numbers(dataset, 1)
    fixed = data.range(50).shuffle(reshuffle=False)
    assert [int(x) for x in fixed] == [int(x) for x in fixed]
    iterator = dataset.iterator()
    assert [int(x) for x in iterator] == first and [int(x) for x in iterator] == second and iterator.epoch == 1


def test_a_loop_that_was_left_is_over_and_the_iterator_continues():
    iterator = data.range(10).iterator()
    loop = iter(iterator)
    assert [int(next(loop)) for _ in range(3)] == [0, 1, 2]
    assert [int(x) for x in iterator] == [3, 4, 5, 6, 7, 8, 9]
    assert list(loop) == []


def test_random_functions_depend_on_the_record_and_the_epoch_only():
    def augment(x, rng):
        return float(x) + rng.uniform()

    plain = data.range(20).map(augment, rng=True, seed=5)
    parallel = data.range(20).map(augment, 4, rng=True, seed=5)
    shuffled = data.range(20).shuffle(seed=9).map(augment, 3, rng=True, seed=5)
    first = numbers(plain)
    assert first == numbers(parallel) == sorted(numbers(shuffled)) and len(set(x % 1 for x in first)) == 20
    assert first != numbers(plain, epoch=1) and first != numbers(data.range(20).map(augment, rng=True, seed=6))


def test_random_functions_differ_between_the_passes_of_cache_and_repeat():
    def noise(x, rng):
        return rng.uniform()

    cached = data.range(4).cache().map(noise, rng=True)
    assert not set(numbers(cached, 0)) & set(numbers(cached, 1))
    assert len(set(numbers(data.range(4).repeat(3).map(noise, rng=True)))) == 12
    assert len(set(numbers(data.range(4).repeat(3).flat_map(lambda x: [1, 2]).map(noise, rng=True)))) == 24


def test_elements_can_be_read_by_index():
    dataset = data.from_arrays(np.arange(10)).map(lambda x: x * x).batch(4)
    assert len(dataset) == 3 and dataset[1].tolist() == [16, 25, 36, 49] and dataset[-1].tolist() == [64, 81]
    with pytest.raises(IndexError, match="element 3 does not exist: the data set has 3 elements"):
        dataset[3]
    with pytest.raises(kz.TypeError, match="not known before"):
        len(dataset.filter(lambda x: True))
    with pytest.raises(kz.TypeError, match="no limit"):
        len(dataset.repeat())
    with pytest.raises(kz.UserError, match="cannot be read by index"):
        dataset.filter(lambda x: True)[0]
    assert bool(data.range(0)) and len(data.range(0)) == 0


def test_arrays_of_functions_cannot_be_written():
    def write(x):
        x += 1
        return x

    with pytest.raises(ValueError, match="read-only"):
        list(data.from_arrays(np.zeros((3, 2), np.float32)).map(write))


def test_an_error_of_a_function_has_its_traceback_and_ends_the_epoch():
    def fail_at_three(x):
        if x == 3:
            raise KeyError("no such label")
        return x

    iterator = data.range(6).map(fail_at_three, 2, processes=False).iterator()
    loop, got = iter(iterator), []
    with pytest.raises(KeyError, match="no such label") as caught:
        for x in loop:
            got.append(int(x))
    assert got == [0, 1, 2] and any(entry.name == "fail_at_three" for entry in caught.traceback)
    assert list(loop) == []


def test_bad_arguments_are_errors():
    dataset = data.range(4)
    for call, error, text in [
        (lambda: dataset.batch(0), kz.UserError, "the number of rows must be at least 1, got 0"),
        (lambda: dataset.batch(2, "some"), kz.UserError, "last must be 'keep', 'drop' or 'pad', got 'some'"),
        (lambda: dataset.map(3), kz.TypeError, "map: expected a function, got int"),
        (lambda: dataset.map(abs, 0), kz.UserError, "parallel must be between 1 and 1024, got 0"),
        (lambda: dataset.filter(abs).shuffle(), kz.UserError, "shuffle: buffer must be at least 1"),
        (lambda: dataset.shard(2, 2), kz.UserError, "the index must be between 0 and 1"),
        (lambda: data.from_arrays(), kz.UserError, "at least one array is needed"),
        (lambda: data.from_arrays(np.zeros(3), np.zeros(4)), kz.ShapeError, "same number of rows, got 3 and 4"),
        (lambda: data.from_generator(5), kz.TypeError, "expected an iterable or a function that returns one, got int"),
        (lambda: data.from_source(5), kz.TypeError, "expected an object with __len__ and __getitem__, got int"),
        (lambda: data.range(1, 2, 0), kz.UserError, "the third not 0"),
        (lambda: data.zip(), kz.UserError, "zip: at least one data set is needed"),
        (
            lambda: list(data.from_source([np.zeros(2), np.zeros(3)]).batch(2)),
            kz.ShapeError,
            "must have the same shape",
        ),
        (lambda: list(data.range(3).flat_map(lambda x: 3)), kz.TypeError, "expected an iterable"),
    ]:
        with pytest.raises(error, match=text.replace("(", "\\(")):
            call()


def test_the_printed_data_set_lists_its_stages():
    dataset = data.zip(data.range(5).shuffle(seed=1), data.range(3)).map(lambda x, y: x, 2).batch(2)
    assert repr(dataset) == (
        "Dataset:\nbatch(2, last=keep)\nmap(parallel=2)\nzip\n  shuffle(seed=1)\n  range(0, 5, 1)\n  range(0, 3, 1)"
    )
