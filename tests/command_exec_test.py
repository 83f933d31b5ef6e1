"""Tests of `karez exec`, which runs saved plans, and of `karez simulate`, which predicts their time."""

# builds: karez_command fashion_mnist
import collections
import json
import re

import numpy as np
import pytest
from karez_command import DATA, USER, costs, edited, karez, makespan, plans


def test_simulate_sums_the_calls_of_one_worker(plans, tmp_path):
    path = plans / "mlp.plan"
    calls = path.read_text().count('\n  call "')
    rates = "link alpha=0 beta=0 matmul_flops=1e300 conv_flops=1e300 memory_bytes=1e300 call=0.001"
    message = karez("simulate", path, "--costs", costs(tmp_path, rates), "--launches", 2)
    assert makespan(message) == 1000.0 * (calls + 3)  # the inputs; the result is in place
    assert re.search(rf"\n +2 +{1000.0 * calls:.1f} .* a3 compute", message)
    assert re.search(r"streams, busy for\n +\d+\.\d %  cpu 0\.0  compute   <- the busiest stream\n", message)
    assert re.search(r"workers \(threads\), busy for\n  100\.0 %  worker 0\n", message)


def test_simulate_is_slower_with_slow_messages(plans):
    words = ("simulate", plans / "mlp2.plan", "--launches", 3)
    assert karez(*words) == karez(*words)
    slow = karez(*words, "--delay", 50)
    assert makespan(slow) > makespan(karez(*words))
    assert slow == karez(*words, "--delay", 50) != karez(*words, "--delay", 50, "--seed", 2)


def test_simulate_uses_the_link_costs_of_an_axis(plans, tmp_path):
    words = ("simulate", plans / "mlp2.plan", "--costs")
    same = [
        makespan(karez(*words, costs(tmp_path, text)))
        for text in ("link alpha=0.001 beta=0", "link @data alpha=0.001 beta=0")
    ]
    assert same[0] == same[1] > makespan(karez(*words, costs(tmp_path, "link @model alpha=0.001 beta=0")))


OVERLAP = """graph main mesh(a=2, b=2) {
  %0 = input() {dtype="f32", name="x", shape=[4096]} : f32[4096@a]
  %1 = input() {dtype="f32", name="y", shape=[4]} : f32[4@b]
  %2 = exp(%0) : f32[4096@a]
  %3 = exp(%1) : f32[4@b]
  %4 = exp(%3) : f32[4@b]
  %5 = layout(%2) : f32[4096;]
  %6 = layout(%4) : f32[4;]
  %7 = tanh(%5) : f32[4096;]
  %8 = tanh(%6) : f32[4;]
  output "x" %7
  output "y" %8
}
"""


def test_simulate_counts_overlapping_collectives_of_a_stream_once(tmp_path):
    """The gather of y begins after the gather of x and ends before it."""
    path = tmp_path / "overlap.plan"
    path.write_text(karez("opt", "-", "--passes", "all", stdin=OVERLAP))
    rates = "link alpha=1e-6 beta=1e-6 matmul_flops=1e300 conv_flops=1e300 memory_bytes=1e300 call=0.0001"
    message = karez("simulate", path, "--costs", costs(tmp_path, rates), "--rows", 100)
    gather = r"^ +1 +(\S+) +(\S+) %  cpu 0\.0  \S+ all_gather "
    (long_time, long_share), (short_time, _) = re.findall(gather, message, re.M)
    assert float(short_time) < float(long_time) / 10
    assert re.search(rf"^ +{long_share} %  cpu 0\.0  comm\b", message, re.M), message


def test_simulate_prints_no_busy_time_for_a_launch_that_takes_none(tmp_path):
    path = tmp_path / "empty.plan"
    graph = """graph main mesh() {
  %0 = input() {dtype="f32", name="x", shape=[0]} : f32[0]
  %1 = exp(%0) : f32[0]
  output "x" %1
}
"""
    path.write_text(karez("opt", "-", "--passes", "all", stdin=graph))
    rates = "link alpha=0 beta=0 matmul_flops=1e300 conv_flops=1e300 memory_bytes=1e300 call=0"
    message = karez("simulate", path, "--costs", costs(tmp_path, rates))
    assert makespan(message) == 0
    assert {float(share) for share in re.findall(r"(\S+) %  ", message)} == {0}
    assert "  0.0 %  worker 0\n" in message


@pytest.mark.parametrize(
    "words, text, code",
    [
        (["--launches", "0"], "karez: --launches must be 1 to 100000, got 0\n", USER),
        (["--launches", "many"], "karez: --launches: invalid number 'many'; see karez simulate --help\n", USER),
        (["--delay", "-1"], "karez: --delay must be a finite number of at least 0, got -1.0\n", USER),
        (["--seed", "-1"], "karez: --seed must be at least 0, got -1\n", USER),
        (["--costs", "/nowhere"], "karez: cannot read /nowhere: No such file or directory\n", DATA),
    ],
)
def test_simulate_rejects_invalid_arguments(words, text, code, plans):
    assert karez("simulate", plans / "mlp.plan", *words, code=code) == text


def test_an_invalid_cost_table_is_reported(plans, tmp_path):
    path = costs(tmp_path, "speed=3")
    message = karez("simulate", plans / "mlp.plan", "--costs", path, code=DATA)
    assert message.startswith(
        f"karez: {path}: costs: line 1, column 6: unknown cost 'speed'; expected one of: origin, link, rate, "
        "matmul_flops"
    )


LABELS = ("--integers", 10, "--input", "adam.lr=0.001")
NUMBER = r"\d+\.\d+"


def output(text):
    return re.search(r"\n  (out0 f32\[\] = \S+)\n", text).group(1)


def test_exec_runs_a_saved_plan_and_prints_its_time(plans):
    message = karez("exec", plans / "mlp.plan", *LABELS, "--launches", 3)
    assert re.match(
        rf"plan 'main': 3 launches on 1 worker: median {NUMBER} ms a launch \(min {NUMBER}, max {NUMBER}\)\n  "
        rf"out0 f32\[\] = \d",
        message,
    )
    fastest, median, slowest = (
        float(re.search(rf"{word} ({NUMBER})", message).group(1)) for word in ("min", "median", "max")
    )
    assert 0 < fastest <= median <= slowest


def test_only_equal_seeds_give_equal_outputs(plans):
    words = ("exec", plans / "mlp2.plan", *LABELS, "--launches", 2)
    first = output(karez(*words))
    assert first == output(karez(*words)) != output(karez(*words, "--seed", 2))
    assert first != output(karez(*words, "--warm-up", 5)), "each launch must continue the training"


@pytest.mark.parametrize("name, launches", [("mlp", 3), ("mlp2", 2), ("cnn", 1)])
def test_the_trace_has_every_act_on_its_worker(name, launches, plans, tmp_path):
    path = plans / f"{name}.plan"
    message = karez("exec", path, *LABELS, "--launches", launches, "--warm-up", 1, "--trace", tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in trace if event["ph"] == "X"]
    acts_per_launch = int(re.search(r"(\d+) acts", karez("plan", "verify", path)).group(1))
    assert f"{acts_per_launch * (launches + 1)} acts in {tmp_path}/trace.json\n" in message
    written = re.findall(r'^actor a\d+: (\w+) "([^"]+)" .*?(?: at "([^"]*)")?$', path.read_text(), re.M)
    assert len(written) == acts_per_launch
    expected = collections.Counter(
        (kind, actor, ticket) for kind, actor, where in written for ticket in range(1, launches + 2)
    )
    assert collections.Counter((e["cat"], e["name"], e["args"]["ticket"]) for e in spans) == expected
    places = {(kind, actor, where) for kind, actor, where in written}
    assert {(e["cat"], e["name"], e["args"]["where"]) for e in spans} == places
    assert {e["args"]["act"] for e in spans} == set(range(launches + 1))
    assert {e["pid"] for e in spans} == {0}
    lanes = {e["tid"]: e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    for lane, title in lanes.items():
        intervals = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if e["tid"] == lane)
        assert all(a[1] <= b[0] + 1e-6 for a, b in zip(intervals, intervals[1:])), f"{title}: acts overlap"
        for event in spans:
            if event["tid"] == lane:
                assert title.startswith(f"worker {event['args']['worker']}")
                if event["cat"] != "input":  # a slow input may be read by a separate thread
                    assert ("concurrent" in title) == (event["cat"] == "collective")
    assert {e["tid"] for e in spans} <= set(lanes)


def test_a_replay_gives_the_results_of_the_engine_and_spends_its_time_in_calls(plans):
    path = plans / "cnn.plan"
    message = karez("exec", path, *LABELS, "--launches", 5, "--replay")
    calls = path.read_text().count('\n  call "')
    share = re.search(
        rf"\nreplay: {calls + 3} calls in a plain loop: median {NUMBER} ms a launch \(min .*\), ({NUMBER}) % of "
        rf"the time outside calls\n",
        message,
    )
    assert float(share.group(1)) <= 2
    assert re.search(
        r"\n  the engine relative to the loop: median [+-]\d+\.\d %, min [+-]\d+\.\d %\n  the last outputs of the loop "
        r"and of the engine are equal, bit for bit\n",
        message,
    )


def test_a_replay_of_several_devices_is_rejected(plans):
    message = karez("exec", plans / "mlp2.plan", "--replay", code=USER)
    assert re.fullmatch(
        r"karez: replay: plan 'main' has \d+ collectives among 2 devices \(the first: \w+ %\d+\); a plain loop on "
        r"one thread runs plans "
        r"of one device\n",
        message,
    )


def test_exec_runs_a_plan_with_given_inputs(plans, tmp_path):
    def loss(*more):
        return output(karez("exec", plans / "mlp.plan", "--input", "adam.lr=0", "--launches", 1, *more))

    for name, array in (
        ("zeros", np.zeros(64, np.int32)),
        ("nines", np.full(64, 9, np.int32)),
        ("wrong", np.zeros(63, np.int32)),
    ):
        np.save(tmp_path / f"{name}.npy", array)
    zeros = loss("--input", f"arg1={tmp_path}/zeros.npy")
    assert zeros == loss() == loss("--input", "arg1=0")
    nines = loss("--input", f"arg1={tmp_path}/nines.npy")
    assert nines == loss("--input", "arg1=9") != zeros
    assert loss("--input", "arg0=0") != zeros


@pytest.mark.parametrize(
    "words, text, code",
    [
        (["--input", "x=3"], "--input x=3: plan 'main' has no input 'x'; there are 3: arg0, arg1, adam.lr\n", USER),
        (["--input", "arg1"], "--input arg1: expected NAME=FILE.npy or NAME=NUMBER\n", USER),
        (["--input", "arg1=0.5"], "--input arg1=0.5: i32 cannot represent 0.5\n", USER),
        (["--input", "arg1=1e10"], "--input arg1=1e10: i32 cannot represent 1e+10\n", USER),
        (["--input", "arg1=1", "--input", "arg1=2"], "--input arg1=2: 'arg1' is given twice\n", USER),
        (["--input", "arg1=WRONG"], "--input arg1=WRONG: the file has f32[63], but the plan requires i32[64]\n", USER),
        (["--input", "arg1=NOTHING"], "NOTHING: not a .npy file: it does not begin with the magic number\n", DATA),
        (["--input", "arg1=/no/where"], "cannot read /no/where: No such file or directory\n", DATA),
        (["--integers", "0"], "--integers must be at least 1, got 0\n", USER),
        (["--launches", "0"], "--launches must be 1 to 1000000, got 0\n", USER),
        (["--trace", "/no/where"], "cannot write /no/where: No such file or directory\n", DATA),
    ],
)
def test_exec_rejects_invalid_arguments(words, text, code, plans, tmp_path):
    wrong, nothing = str(tmp_path / "wrong.npy"), str(tmp_path / "nothing.npy")
    np.save(wrong, np.zeros(63, np.float32))
    (tmp_path / "nothing.npy").write_text("")
    words, text = (
        [w.replace("WRONG", wrong).replace("NOTHING", nothing) for w in words],
        text.replace("WRONG", wrong).replace("NOTHING", nothing),
    )
    assert karez("exec", plans / "mlp.plan", *words, code=code) == "karez: " + text


def test_exec_names_the_users_line_if_a_launch_fails(plans):
    message = karez("exec", plans / "mlp.plan", "--input", "arg1=10", code=DATA)
    assert re.match(
        r"karez: reduce_max \+ .* \+ one_hot \+ .* at .*fashion_mnist.cc:\d+ \(grad\): one_hot: "
        r"cross_entropy's label 10 at \[0\] is outside 0 to 9 \[launch 1, ",
        message,
    )


def test_exec_lists_kernels_if_one_is_missing(plans, tmp_path):
    path = edited(plans, tmp_path, ('"onednn.matmul"', '"onednn.matmull"'))
    assert "unknown kernel 'onednn.matmull'; the nearest of " in karez("exec", path, code=USER)
