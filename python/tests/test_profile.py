"""Tests of kz.profile: which launches it records, its table, and its trace."""

import gc
import json
import re
import time

import numpy as np
import pytest
from small_net import Net, X, Y

import karez as kz
from karez import F, data, nn


def training():
    net = Net()
    opt = kz.optim.SGD(net.parameters(), lr=0.1)

    @kz.compile
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    float(step(X, Y))
    return step


def events_of(path):
    return json.loads(path.read_text())["traceEvents"]


def spans_by_lane(events):
    lanes = {}
    for event in events:
        if event["ph"] == "X":
            lanes.setdefault((event["pid"], event["tid"]), []).append(event)
    return lanes


def sums_of(table):
    """The milliseconds of the lines below the rows."""
    return [
        float(line.split()[0])
        for line in table.splitlines()
        if re.search(r"%  (sum of the|calls of other|waiting:|launch overhead:|data stall:|program:)", line)
    ]


def test_a_profile_records_the_requested_launches():
    step = training()
    with kz.profile(steps=5) as p:
        for _ in range(8):
            step(X, Y)
    assert p.launches == 5
    table = p.table()
    assert table.startswith("5 launches, ")
    assert "test_profile.py:" in table and "fc1" in table and "onednn.matmul" in table
    assert re.search(r"^ .* 5 .* tanh .*", table, re.M)
    modules = p.table(by="module")
    assert re.search(r"  fc1$", modules, re.M) and re.search(r"  fc2$", modules, re.M)
    assert "onednn" not in modules
    kinds = p.table(by="kind")
    assert len(re.findall(r"  matmul$", kinds, re.M)) == 1 < len(re.findall(r"  matmul  ", table))
    assert "fc1" not in kinds and "test_profile.py:" not in kinds


def test_the_sums_are_the_measured_time():
    class Mlp(nn.Module):
        def __init__(self):
            self.up, self.down = nn.Linear(256, 512), nn.Linear(512, 10)

        def forward(self, x):
            return self.down(F.relu(self.up(x)))

    net = Mlp()
    step = kz.compile(lambda x: net(x).sum())
    x = np.ones((128, 256), np.float32)
    float(step(x))
    with kz.profile() as p:
        begin = time.perf_counter()
        for _ in range(60):
            float(step(x))
        measured = (time.perf_counter() - begin) * 1e3
    assert p.launches == 60
    assert sum(sums_of(p.table())) == pytest.approx(measured, rel=0.05), p.table()


def test_the_trace_is_valid_and_its_spans_do_not_overlap(tmp_path):
    step = kz.compile(lambda x: F.relu(x @ x).sum())

    def work(x):
        time.sleep(0.002)
        return x

    rows = data.from_arrays(np.ones((12, 16, 16), np.float32)).map(work, parallel=2, processes=False)
    step(np.ones((16, 16), np.float32))
    with kz.profile() as p:
        for x in rows:
            step(x).wait()
    p.save(tmp_path / "trace.json")
    events = events_of(tmp_path / "trace.json")
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"launches", "worker 0", "data thread 1"} <= names
    assert any(name.endswith("waits for data") for name in names)
    lanes = spans_by_lane(events)
    for spans in lanes.values():
        spans.sort(key=lambda e: e["ts"])
        for before, after in zip(spans, spans[1:]):
            assert before["ts"] + before["dur"] <= after["ts"] + 0.0011
    launches = sorted((e for e in events if e.get("cat") == "launch"), key=lambda e: e["ts"])
    assert len(launches) == 12
    # Calls lie in their launch, on the same clock, and data is read before the launch that uses it.
    for launch in launches:
        calls = [e for e in events if e.get("cat") == "compute" and e["args"]["ticket"] == launch["args"]["ticket"]]
        assert calls
        for call in calls:
            assert launch["ts"] <= call["ts"] and call["ts"] + call["dur"] <= launch["ts"] + launch["dur"] + 0.0011
    name = re.compile(r"map\(work, parallel=2\) \(by index\) at test_profile\.py:\d+$")
    stages = [e for e in events if e.get("cat") == "stage" and name.search(e["name"])]
    stages = [e for e in stages if e["args"]["elements"]]
    assert len(stages) == 12 and all(e["dur"] >= 2000 and e["args"]["bytes"] == 1024 for e in stages)
    stalls = [e for e in events if e.get("cat") == "stall"]
    assert stalls and all("map(work" in e["args"]["stage"] for e in stalls)
    waited = sum(launch["args"]["waited_for_data_us"] for launch in launches)
    assert waited == pytest.approx(sum(e["dur"] for e in stalls), abs=1)
    assert waited > 2000


def test_a_profile_without_launches_says_so(tmp_path):
    with kz.profile(steps=2) as p:
        pass
    assert p.launches == 0
    assert p.table() == p.table(by="module") == "no launch was recorded\n"
    p.save(str(tmp_path / "empty.json"))
    assert spans_by_lane(events_of(tmp_path / "empty.json")) == {}


def test_results_that_are_not_read_are_recorded():
    step = training()
    with kz.profile() as p:
        for _ in range(3):
            step(X, Y)
    assert p.launches == 3


def test_profiles_may_be_nested_and_stopped_early():
    step = training()
    with kz.profile() as outer:
        step(X, Y)
        with kz.profile(skip=1) as inner:
            step(X, Y)
            step(X, Y)
        step(X, Y)
        outer.stop()
        outer.stop()
        step(X, Y)
    assert (outer.launches, inner.launches) == (4, 1)


def test_an_exception_ends_the_profile():
    step = training()
    with pytest.raises(ZeroDivisionError):
        with kz.profile() as p:
            float(step(X, Y))
            1 / 0
    step(X, Y)
    assert p.launches == 1


def test_computations_outside_of_functions_are_recorded():
    kz.tensor([1.0, 2.0])
    with kz.profile() as p:
        float((kz.tensor([1.0, 2.0]) * 3).sum())
    assert p.launches == 1
    assert "test_profile.py" in p.table()


def test_wrong_arguments_and_orders_are_errors(tmp_path):
    for options in ({"steps": -1}, {"steps": True}, {"steps": 1.5}, {"skip": -1}, {"skip": "2"}):
        name, value = next(iter(options.items()))
        with pytest.raises(kz.UserError) as error:
            kz.profile(**options)
        assert str(error.value) == f"kz.profile: {name} must be an integer of at least 0, got {value!r}"
    p = kz.profile()
    for use in (p.table, p.stop, lambda: p.launches, lambda: p.save("x")):
        with pytest.raises(kz.UserError, match="nothing is recorded before the `with` statement"):
            use()
    with p:
        pass
    with pytest.raises(kz.UserError, match="only one `with` statement"):
        with p:
            pass
    with pytest.raises(kz.UserError, match="by must be 'op', 'kind' or 'module', got 'line'"):
        p.table(by="line")
    with pytest.raises(kz.Error, match="number of rows must be at least 1, got 0"):
        p.table(rows=0)
    with pytest.raises(kz.DataError, match="cannot write /no/where/trace.json: No such file"):
        p.save("/no/where/trace.json")


def test_a_profile_that_is_not_stopped_may_be_the_last_owner_of_a_world():
    p = kz.profile()
    p.__enter__()
    step = kz.compile(lambda x: x.sum())
    # The threads of a Python function need the GIL when the world ends.
    for x in data.from_arrays(np.ones((8, 4), np.float32)).map(lambda x: x, parallel=2, processes=False):
        float(step(x))
    del step, x
    gc.collect()
    kz.worlds._end()
    del p
    gc.collect()


def test_a_profile_outlives_its_world():
    step = training()
    with kz.profile() as p:
        float(step(X, Y))
        kz.worlds._end()
    assert p.launches == 1
    assert "1 launch, " in p.table()
