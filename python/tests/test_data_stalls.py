"""Tests of what programs learn about devices that wait for data, and about stages bound by the CPU or by IO."""

import re
import time

import numpy as np
import pytest

import karez as kz
from karez import data

WAITED = re.compile(r"the devices waited for data for ([0-9.]+) s of ([0-9.]+) s \(([0-9.]+) %\)")


def slow(seconds):
    def wait(x):
        time.sleep(seconds)
        return x

    return wait


def train(iterator, step, count=None):
    for number, x in enumerate(iterator):
        step(x).wait()
        if number == count:
            return


def share_of(text):
    stall, seconds, percent = map(float, WAITED.search(text).groups())
    assert 0 <= stall <= seconds
    assert percent == pytest.approx(100 * stall / max(seconds, 1e-9), abs=1 + 0.2 / max(seconds, 1e-3))
    return stall / seconds


def test_a_slow_stage_is_named_in_the_log_the_report_and_the_plan(capfd):
    step = kz.compile(lambda x: (x * 2).sum())
    rows = data.from_arrays(np.ones((60, 4), np.float32)).filter(lambda x: True).map(slow(0.008)).batch(1)
    with rows.iterator() as iterator:
        assert "devices" not in iterator.explain_data()
        train(iterator, step, 30)
        report = iterator.explain_data()
    assert share_of(report) > 0.3
    stages = r"map\(wait\), batch\(.*\) at test_data_stalls\.py:\d+"
    assert re.search(rf"; the data set is limited by .*{stages}, which acted \d+ % of the time", report)
    assert re.search(r" IO, \d+ % ", report)
    log = capfd.readouterr().err
    assert log.count("the devices wait for a data set for ") == 1, log
    summary = step.summary()
    assert share_of(summary) > 0.3
    assert re.search(r"in 3\d launches, before the last ones for (\d+\.\d, ){9}\d+\.\d ms\n$", summary)
    assert WAITED.search(step.plan._repr_html_())
    assert not WAITED.search(kz.compile(lambda x: x + 1).compile(np.ones(2, np.float32)).summary())


def test_a_fast_data_set_lets_no_device_wait():
    rng = np.random.default_rng(0).normal(size=(400, 400)).astype(np.float32)
    step = kz.compile(lambda x, w: (w @ w @ w @ w @ w * x.sum()).sum())
    with data.from_arrays(np.ones((40, 4), np.float32)).batch(1).prefetch(4).iterator(slots=4) as iterator:
        train(iterator, lambda x: step(x, rng))
        report = iterator.explain_data()
    assert share_of(report) < 0.5, report


def test_functions_in_worker_processes_count():
    def compute(x):
        end = time.process_time() + 0.004
        while time.process_time() < end:
            pass
        return x

    rows = data.from_arrays(np.ones((40, 4), np.float32))
    for function, word in ((slow(0.004), "IO"), (compute, "CPU")):
        iterator = rows.map(function, parallel=2).iterator()
        assert sum(1 for _ in iterator.as_numpy()) == 40
        (line,) = (line for line in iterator.explain_data().splitlines() if "in 2 processes" in line)
        assert f" {word}, " in line
        iterator.close()
    kept = rows.filter(lambda x: time.sleep(0.003) or True, parallel=2).iterator()
    assert sum(1 for _ in kept.as_numpy()) == 40
    assert re.search(r" IO, \d+ % .*in 2 processes", kept.explain_data())
    kept.close()


def test_reads_without_launches_are_no_stalls(capfd):
    step = kz.compile(lambda x: x + 1)
    step(np.ones(3, np.float32)).wait()
    rows = data.from_arrays(np.ones((30, 4), np.float32)).map(slow(0.004))
    with rows.iterator() as iterator:
        assert sum(1 for _ in iterator.as_numpy()) == 30
        assert share_of(iterator.explain_data()) == 0
    assert capfd.readouterr().err == ""
    assert not WAITED.search(step.summary())


def test_two_iterators_are_counted_apart_and_the_first_launch_after_them_waits():
    slow_step, fast_step = kz.compile(lambda x: x + 1), kz.compile(lambda x: x * 3)
    rows = data.from_arrays(np.ones((60, 4), np.float32)).filter(lambda x: True)
    with rows.map(slow(0.006)).iterator() as one, rows.iterator(slots=8) as two:
        for x, y in zip(one, two):
            slow_step(x).wait()
            fast_step(y).wait()
        assert share_of(one.explain_data()) > max(0.2, share_of(two.explain_data()))
    assert share_of(slow_step.summary()) > 0.2
    assert not WAITED.search(fast_step.summary()), "the launch before it has used the elements"
