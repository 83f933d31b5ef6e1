"""Cores that are left to data sets automatically: the number is chosen, and results stay the same."""

import gc
import os
import re
import time

import numpy as np
import pytest

import karez as kz
from karez import F, data, nn

cores = len(os.sched_getaffinity(0))


def compute(x, y):
    end = time.process_time() + 0.003
    while time.process_time() < end:
        pass
    return x, y, np.array(os.getpid()), np.array(sorted(os.sched_getaffinity(0)))


def trainer():
    net = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Linear(256, 3))
    optimizer = kz.optim.SGD(net.parameters(), lr=0.01)

    @kz.compile
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    @kz.compile
    def evaluate(x):
        return net(x)

    return step, evaluate


def batches():
    rng = np.random.default_rng(0)
    rows = data.from_arrays(rng.standard_normal((640, 20), np.float32), rng.integers(0, 3, 640))
    return rows.repeat().batch(64)


def test_a_number_is_chosen_and_losses_are_those_of_another_world():
    kz.init(data_cores="auto", seed=3)
    step, evaluate = trainer()
    losses, cpus = [], set()
    mapped = batches().map(compute, parallel=2, processes=True).prefetch(2)
    end, settled = time.monotonic() + 60, 0
    with mapped.iterator() as iterator:
        for x, y, _, allowed in iterator:
            losses.append(float(step(x, y)))
            if len(losses) % 50 == 1:
                assert evaluate(x).shape == (64, 3)
            text = re.search(r"data_cores (\d+) of (\d+), chosen automatically: (.*)", iterator.explain_data())
            assert int(text[2]) == cores
            if "being measured" not in text[3] and (cores == 1 or "with" in text[3] or "less than" in text[3]):
                settled += 1
            if settled > 60:
                cpus = set(allowed.reshape(-1).tolist())
            if settled > 60 or time.monotonic() > end:
                break
    assert settled > 60, text[0]
    chosen = int(text[1])
    if cores > 1:
        assert len(cpus) == (chosen or cores), text[0]

    kz.worlds._end()
    kz.init(seed=3)
    step, _ = trainer()
    expected = [float(step(x, y)) for _, (x, y) in zip(losses, batches())]
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


def test_stages_that_hardly_compute_get_no_core():
    kz.init(data_cores="auto", seed=3)
    step, _ = trainer()
    end = time.monotonic() + 30
    with batches().iterator() as iterator:
        for x, y in iterator:
            step(x, y).numpy()
            time.sleep(0.01)
            if "less than a tenth" in (text := iterator.explain_data()) or time.monotonic() > end:
                break
    expected = "less than a tenth of a core" if cores > 1 else "kernels need one core"
    assert f"data_cores 0 of {cores}, chosen automatically" in text and expected in text


@pytest.mark.parametrize(
    "options, error",
    [
        ({"data_cores": "all"}, "data_cores must be at least 0 or \"auto\", got 'all'"),
        ({"data_cores": None}, 'data_cores must be at least 0 or "auto", got None'),
        ({"data_cores": -1}, 'data_cores must be at least 0 or "auto", got -1'),
        ({"data_cores": "auto", "team": 2}, "team must be 0, got 2"),
    ],
)
def test_invalid_numbers_are_errors_and_a_later_init_works(options, error):
    with pytest.raises(kz.Error, match=re.escape(error)):
        kz.init(**options)
    kz.init(data_cores=1)


def test_a_function_may_be_the_last_owner_of_a_world_whose_threads_have_called_python():
    kz.init()
    step, _ = trainer()
    with batches().map(lambda x, y: (x * 2, y), 2, processes=False).iterator() as iterator:
        x, y = next(iter(iterator))
        step(x, y).numpy()
    del iterator, x, y
    kz.worlds._end()
    del step, _  # would wait forever for the data threads if it kept the interpreter's lock
    gc.collect()
    kz.init()
