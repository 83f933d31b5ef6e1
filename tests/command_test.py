"""Tests of the command `karez`: every subcommand with valid and with invalid input."""

# builds: karez_command fashion_mnist
import collections
import gzip
import json
import os
import re
import subprocess

import numpy as np
import pytest
from example_test import EXAMPLE, images, labels

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KAREZ = os.path.join(ROOT, os.environ.get("KAREZ_BUILD", "build"), "tools", "karez")
USER, HANG, DATA = 64, 76, 77  # exit codes follow from the kind of error


def karez(*words, code=0, stdin=None):
    """The standard output of karez; for an expected error its standard error."""
    result = subprocess.run([KAREZ, *map(str, words)], input=stdin, capture_output=True, text=True, timeout=300)
    assert result.returncode == code, result
    assert (result.stderr == "") == (code < 2), result.stderr
    return result.stdout if code < 2 else result.stderr


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """A folder with plans that the example wrote: mlp on one device, mlp2 on two, and cnn."""
    folder = tmp_path_factory.mktemp("plans")
    for name, count in (("train", 64), ("t10k", 10)):
        for kind, content in (("images-idx3", images(count)), ("labels-idx1", labels(count))):
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))
    for name, model, mesh in (("mlp", "mlp", ""), ("mlp2", "mlp", "data=2"), ("cnn", "cnn", "")):
        subprocess.run(
            [
                EXAMPLE,
                "--data",
                folder,
                "--model",
                model,
                "--mesh",
                mesh,
                "--epochs",
                "1",
                "--plan",
                folder / f"{name}.plan",
            ],
            check=True,
            timeout=120,
        )
    return folder


def edited(plans, tmp_path, *changes, name="mlp.plan"):
    """A copy of a plan with the first occurrences of some texts replaced."""
    text = (plans / name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "edited.plan"
    path.write_text(text)
    return path


def test_help_names_every_subcommand():
    for words, names in (
        ([], ["plan", "opt", "simulate", "exec", "run"]),
        (["plan"], ["show", "verify", "diff", "explain"]),
    ):
        text = karez(*words, "--help")
        for name in names:
            assert f"\n  {name} " in text


@pytest.mark.parametrize(
    "words, text",
    [
        ([], "karez: A subcommand is required; see karez --help\n"),
        (["plan"], "karez: A subcommand is required; see karez plan --help\n"),
        (
            ["plan", "shwo", "x"],
            "karez: no subcommand of karez plan is called 'shwo'; there are 4: show, diff, verify, explain; see karez plan --help\n",
        ),
        (["plan", "show"], "karez: FILE is required; see karez plan show --help\n"),
        (["plan", "show", "a", "b"], "karez: The following argument was not expected: b; see karez plan show --help\n"),
    ],
)
def test_invalid_arguments_are_rejected(words, text):
    assert karez(*words, code=USER) == text


def test_show_prints_the_text_of_the_file(plans):
    path = plans / "mlp.plan"
    assert karez("plan", "show", path) == path.read_text()
    assert karez("plan", "show", "--summary", path).startswith("plan 'main' of rank 0 of 1: 1 device, 3 streams\n")


def test_verify_runs_a_launch_to_its_end(plans):
    assert f"{plans}/mlp2.plan: valid; a launch ends after " in karez("plan", "verify", plans / "mlp2.plan")


def test_verify_reports_an_invalid_plan(plans, tmp_path):
    path = edited(plans, tmp_path, ("slots 2", "slots 3"))  # so that it overlaps its neighbours in the arena
    assert "no tokens keep them apart" in karez("plan", "verify", path, code=DATA)
    path = edited(plans, tmp_path, ("slots 2", "slots 300"))
    assert karez("plan", "verify", path, code=DATA).startswith(
        f"karez: {path}: register r0 (f32[64, 1, 28, 28;]) ends at byte "
    )


def test_verify_rejects_every_plan_that_exec_rejects(plans, tmp_path):
    rng, seen = np.random.default_rng(7), collections.Counter()
    for name in ("mlp.plan", "mlp2.plan", "cnn.plan"):
        text = (plans / name).read_text()
        numbers = list(re.finditer(r"\d+", text))
        for at in rng.choice(len(numbers), 40):
            number = numbers[at]
            new = str(rng.choice([int(number.group()) + 1, int(number.group()) * 2, 0, 7]))
            path = tmp_path / "edited.plan"
            path.write_text(text[: number.start()] + new + text[number.end() :])
            says = subprocess.run([KAREZ, "plan", "verify", path], capture_output=True, text=True, timeout=300)
            if says.returncode == 0:
                runs = subprocess.run(
                    [KAREZ, "exec", path, "--launches", "1", "--warm-up", "0"],
                    capture_output=True,
                    text=True,
                    timeout=300,
                )
                assert runs.returncode == 0, (name, text[number.start() - 60 : number.end() + 20], new, runs.stderr)
            seen[says.returncode == 0] += 1
    assert min(seen[True], seen[False]) >= 20, seen


def test_verify_names_the_calls_that_it_cannot_check(plans, tmp_path):
    kernel = re.search(r"(plain|hwy|onednn)\.\w+", (plans / "mlp.plan").read_text()).group()
    message = karez("plan", "verify", edited(plans, tmp_path, (kernel, "fpga.matmul")))
    assert (
        "valid" in message and "not checked: 1 call of fpga.matmul, a kernel that this build does not have" in message
    )


def test_verify_reports_a_missing_turn(plans, tmp_path):
    # turn 1 of the communicator twice, and no turn 0
    path = edited(plans, tmp_path, (" turn 0 ", " turn 1 "), name="mlp2.plan")
    message = karez("plan", "verify", path, code=DATA)
    assert "turn" in message


@pytest.mark.parametrize("words", [["plan", "show"], ["plan", "verify"]])
def test_an_invalid_plan_file_is_reported_with_its_line(words, plans, tmp_path):
    path = edited(plans, tmp_path, ("register r5: a5", "register r5: zz"))
    line = 1 + path.read_text().splitlines().index(
        next(one for one in path.read_text().splitlines() if one.startswith("register r5"))
    )
    assert karez(*words, path, code=DATA).startswith(
        f"karez: {path}: plan: line {line}, column 14: expected 'a' at 'zz -> a3"
    )
    assert (
        karez(*words, tmp_path / "none", code=DATA)
        == f"karez: cannot read {tmp_path}/none: No such file or directory\n"
    )
    assert karez(*words, tmp_path, code=DATA) == f"karez: cannot read {tmp_path}: it is a directory\n"


def test_diff_prints_the_lines_that_differ_and_returns_an_exit_code(plans, tmp_path):
    path = plans / "mlp.plan"
    assert karez("plan", "diff", path, path) == ""
    other = edited(
        plans,
        tmp_path,
        ('binding "arg0"', 'binding "x"'),
        ('device 0: 0 0 "cpu"\n', '# a comment\ndevice 0: 0 0   "cpu"\n'),
    )
    message = karez("plan", "diff", path, other, code=1).splitlines()
    assert [line[0] for line in message] == ["-", "+"]
    assert 'binding "arg0"' in message[0] and 'binding "x"' in message[1]
    assert "cannot read" in karez("plan", "diff", path, tmp_path / "none", code=DATA)


def test_a_failed_write_to_standard_output_is_an_error(plans):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [KAREZ, "plan", "show", plans / "mlp.plan"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (result.returncode, result.stderr) == (DATA, "karez: cannot write to standard output\n")


def costs(tmp_path, text):
    path = tmp_path / "costs"
    path.write_text(text)
    return path


def makespan(text):
    return float(re.match(r"plan 'main': (\S+) us a launch, predicted", text).group(1))


def test_simulate_sums_the_calls_of_one_worker(plans, tmp_path):
    path = plans / "mlp.plan"
    calls = path.read_text().count('\n  call "')
    rates = "link alpha=0 beta=0 matmul_flops=1e300 conv_flops=1e300 memory_bytes=1e300 call=0.001"
    message = karez("simulate", path, "--costs", costs(tmp_path, rates), "--launches", 2)
    assert makespan(message) == 1000.0 * (calls + 4)  # three inputs and a fetch, each with the duration of a call
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


@pytest.mark.parametrize(
    "words, text, code",
    [
        (["--launches", "0"], "karez: --launches: 0 is not in 1 .. 100000\n", USER),
        (["--launches", "many"], "karez: Could not convert: --launches = many; see karez simulate --help\n", USER),
        (["--delay", "-1"], "karez: --delay: -1.0 is not a finite number of at least 0\n", USER),
        (["--seed", "-1"], "karez: --seed: -1 is below 0\n", USER),
        (["--costs", "/nowhere"], "karez: cannot read /nowhere: No such file or directory\n", DATA),
    ],
)
def test_simulate_rejects_invalid_arguments(words, text, code, plans):
    assert karez("simulate", plans / "mlp.plan", *words, code=code) == text


def test_an_invalid_cost_table_is_reported(plans, tmp_path):
    path = costs(tmp_path, "speed=3")
    message = karez("simulate", plans / "mlp.plan", "--costs", path, code=DATA)
    assert message.startswith(
        f"karez: {path}: costs: line 1, column 6: 'speed' is not a cost; there are origin, link, rate, matmul_flops"
    )


LABELS = ("--integers", 10, "--input", "adam.lr=0.001")
NUMBER = r"\d+\.\d+"


def output(text):
    return re.search(r"\n  (out0 f32\[\] = \S+)\n", text).group(1)


def test_exec_runs_a_saved_plan_and_prints_its_time(plans):
    message = karez("exec", plans / "mlp.plan", *LABELS, "--launches", 3)
    assert re.match(
        rf"plan 'main': 3 launches on 1 worker: median {NUMBER} ms a launch \(least {NUMBER}, most {NUMBER}\)\n  out0 f32\[\] = \d",
        message,
    )
    least, median, most = (
        float(re.search(rf"{word} ({NUMBER})", message).group(1)) for word in ("least", "median", "most")
    )
    assert 0 < least <= median <= most


def test_only_equal_seeds_give_equal_outputs(plans):
    words = ("exec", plans / "mlp2.plan", *LABELS, "--launches", 2)
    first = output(karez(*words))
    assert first == output(karez(*words)) != output(karez(*words, "--seed", 2))
    assert first != output(karez(*words, "--warm-up", 5)), "each launch continues the training"


@pytest.mark.parametrize("name, launches", [("mlp", 3), ("mlp2", 2), ("cnn", 1)])
def test_the_trace_has_every_act_on_its_worker(name, launches, plans, tmp_path):
    path = plans / f"{name}.plan"
    message = karez("exec", path, *LABELS, "--launches", launches, "--warm-up", 1, "--trace", tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in trace if event["ph"] == "X"]
    in_a_launch = int(re.search(r"(\d+) acts", karez("plan", "verify", path)).group(1))
    assert f"{in_a_launch * (launches + 1)} acts in {tmp_path}/trace.json\n" in message
    written = re.findall(r'^actor a\d+: (\w+) "([^"]+)" .*?(?: at "([^"]*)")?$', path.read_text(), re.M)
    assert len(written) == in_a_launch
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
        here = sorted((e["ts"], e["ts"] + e["dur"]) for e in spans if e["tid"] == lane)
        assert all(a[1] <= b[0] + 1e-6 for a, b in zip(here, here[1:])), f"{title}: acts overlap"
        for event in spans:
            if event["tid"] == lane:
                assert title.startswith(f"worker {event['args']['worker']}")
                if event["cat"] != "input":  # a slow input may be read by a separate thread
                    assert ("concurrent" in title) == (event["cat"] == "collective")
    assert {e["tid"] for e in spans} <= set(lanes)


def test_a_replay_gives_the_bits_of_the_engine_and_spends_its_time_in_calls(plans):
    path = plans / "cnn.plan"
    message = karez("exec", path, *LABELS, "--launches", 5, "--replay")
    calls = path.read_text().count('\n  call "')
    share = re.search(
        rf"\nreplay: {calls + 4} calls in a plain loop: median {NUMBER} ms a launch \(least .*\), ({NUMBER}) % of the time outside calls\n",
        message,
    )
    assert float(share.group(1)) <= 2
    assert re.search(
        r"\n  the engine relative to it: median [+-]\d+\.\d %, least [+-]\d+\.\d %\n  its last outputs are the engine's, bit for bit\n",
        message,
    )


def test_a_replay_of_several_devices_is_rejected(plans):
    message = karez("exec", plans / "mlp2.plan", "--replay", code=USER)
    assert re.fullmatch(
        r"karez: replay: plan 'main' has \d+ collectives among 2 devices \(the first: \w+ %\d+\); a plain loop on one thread runs plans "
        r"of one device\n",
        message,
    )


def test_the_plan_gets_a_saved_input(plans, tmp_path):
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
        (["--input", "arg1=0.5"], "--input arg1=0.5: 0.5 is not an i32\n", USER),
        (["--input", "arg1=1e10"], "--input arg1=1e10: 1e+10 is not an i32\n", USER),
        (["--input", "arg1=1", "--input", "arg1=2"], "--input arg1=2: 'arg1' is given twice\n", USER),
        (["--input", "arg1=WRONG"], "--input arg1=WRONG: the file has f32[63], but the plan takes i32[64]\n", USER),
        (["--input", "arg1=NOTHING"], "NOTHING: not a .npy file: it does not begin with the magic number\n", DATA),
        (["--input", "arg1=/no/where"], "cannot read /no/where: No such file or directory\n", DATA),
        (["--integers", "0"], "--integers: 0 is below 1\n", USER),
        (["--launches", "0"], "--launches: 0 is not in 1 .. 1000000\n", USER),
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
        r"karez: one_hot at .*fashion_mnist.cc:\d+: one_hot: cross_entropy's label 10 at \[0\] is outside 0 to 9 \[launch 1, ",
        message,
    )


def test_exec_lists_kernels_if_one_is_missing(plans, tmp_path):
    path = edited(plans, tmp_path, ('"onednn.matmul"', '"onednn.matmull"'))
    assert "no kernel is called 'onednn.matmull'; of " in karez("exec", path, code=USER)


def explained(path, *more):
    """The parts of the page by the first two words of their titles."""
    parts = karez("plan", "explain", path, "--rows", 1000, *more).split("\n\n")[1:]  # without the counts
    return {re.match(r"\w+ \w+", part).group(0): part.rstrip("\n").split("\n") for part in parts}


@pytest.mark.parametrize("name", ["mlp", "mlp2", "cnn"])
def test_the_critical_cycle_has_the_time_of_the_simulator(name, plans):
    title = explained(plans / f"{name}.plan")["Critical cycle"][0]
    interval = re.search(r"one at a time: (\S+) us a launch", title).group(1)
    assert float(interval) == makespan(karez("simulate", plans / f"{name}.plan"))


def test_explain_lists_all_transfers_with_their_bytes(plans):
    title, heads, *rows = explained(plans / "mlp2.plan")["Traffic between"]
    planned = [int(n) for n in re.findall(r"^transfer .* bytes (\d+)", (plans / "mlp2.plan").read_text(), re.M)]
    assert heads.split() == ["us", "bytes", "kind", "axis", "value"]
    assert sorted(int(row.split()[1]) for row in rows) == sorted(planned)
    assert f"{len(planned)} transfers, " in title and f"({sum(planned)} bytes) a launch" in title
    times = [float(row.split()[0]) for row in rows]
    assert times == sorted(times, reverse=True) and times[-1] > 0
    assert abs(float(re.search(r"a launch, (\S+) us", title).group(1)) - sum(times)) < 0.1 * len(times)
    assert explained(plans / "mlp.plan")["Traffic between"] == ["Traffic between devices: none"]


def test_explain_gives_each_module_its_variables_and_their_state(plans):
    text = (plans / "mlp.plan").read_text()
    sizes = {
        name: int(size)
        for size, name in re.findall(r'^block b\d+: variable device 0 bytes (\d+) name "([^"]+)"', text, re.M)
    }
    rows = {row.split()[-1]: re.split(r"  +", row.strip()) for row in explained(plans / "mlp.plan")["Memory by"][2:-1]}
    for module in ("fc1", "fc2", "fc3", "fc4"):
        own = sum(size for name, size in sizes.items() if name.startswith(module + "."))
        state = sum(size for name, size in sizes.items() if name.startswith("adam.") and f".{module}." in name)
        assert state == 2 * own
        together, variables, their_state, registers, _ = rows[module]
        assert [together, variables, their_state, registers] == [
            bytes_text(own + state),
            bytes_text(own),
            bytes_text(state),
            "-",
        ]
    assert rows["adam"][1] == "8 B"  # its step count, which is not the state of a module


def bytes_text(n):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= unit:
            return f"{n / unit:.2f} {name}"
    return f"{n} B"


def test_explain_sums_the_users_lines(plans):
    page = explained(plans / "cnn.plan")
    title, heads, *rows = page["Source lines"]
    times = [float(row.split()[0]) for row in rows]
    assert times == sorted(times, reverse=True)
    assert abs(float(re.search(r"backward: (\S+) us", title).group(1)) - sum(times)) < 0.1 * len(times)
    assert re.search(r"fashion_mnist\.cc:\d+  conv2d", rows[0])
    text = (plans / "cnn.plan").read_text()
    # three inputs and a fetch
    assert sum(int(re.split(r"  +", row.strip())[2]) for row in rows) == text.count('\n  call "') + 4


def test_explain_reports_omitted_rows(plans):
    assert "  ... and " in karez("plan", "explain", plans / "mlp2.plan", "--rows", 2)
    assert karez("plan", "explain", plans / "mlp2.plan", "--rows", -1, code=USER) == "karez: --rows: -1 is below 0\n"


GRAPH = """graph main mesh(data=2, model=2) {
  variable "w" : f32[4, 6] read %1 updated %9
  %0 = input() {dtype="f32", name="x", shape=[8, 6]} : f32[8@data, 6] at "net.cc:3"
  %1 = variable() {dtype="f32", name="w", shape=[4, 6]} : f32[4, 6]
  %2 = matmul(%0, %1) {transpose_b=true} : f32[8, 4] in "fc" at "net.cc:4"
  %3 = relu(%2) : f32[8, 4] in "fc" at "net.cc:4"
  %4 = matmul(%0, %1) {transpose_b=true} : f32[8, 4] in "fc" at "net.cc:5"
  %5 = exp(%4) : f32[8, 4] at "net.cc:5"
  %6 = add(%3, %4) : f32[8, 4] at "net.cc:6"
  %9 = add(%1, %1) : f32[4, 6] at "net.cc:7"
  output "y" %6
}
"""


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "net.graph"
    path.write_text(GRAPH)
    return path


def test_opt_runs_the_named_passes(graph):
    message = karez("opt", graph, "--passes", "canonicalise")
    assert message.count("matmul(") == 1, "the second product equals the first"
    assert "exp(" not in message, "its result is unused"
    assert "after n" not in message and "box(" not in message
    ordered = karez("opt", graph)
    assert re.search(r'= box\(%\d+\) \{axis=\d, from=".*", move="all_gather", to="B"\}', ordered)
    assert '} : f32[8@data, 6] at "net.cc:3"' in ordered.replace("f32[8@data, 6;]", "f32[8@data, 6]"), (
        "a layout in the text is kept"
    )


def test_opt_can_read_its_own_output(graph):
    once = karez("opt", graph, "--passes", "canonicalise")
    assert karez("opt", "-", "--passes", "canonicalise", stdin=once) == once
    boxed = karez("opt", graph, "--passes", "shard,box,order")
    assert karez("opt", "-", "--passes", "canonicalise", stdin=boxed).startswith("graph main mesh(data=2, model=2) {\n")


def test_opt_prints_the_result_of_each_pass(graph):
    message = karez("opt", graph, "--passes", "all", "--each")
    names = re.findall(r"^# after (\w+), \d+\.\d+ ms", message, re.M)
    assert names[0] == "unroll" and names[-1] == "memory" and len(names) == len(set(names)) > 10
    assert re.search(
        r"^# after shard, \S+ ms: calls and transfers of \S+ us a launch, predicted with default costs \(`karez doctor` measures this machine\); optimal",
        message,
        re.M,
    )
    parts = re.split(r"^# after .*\n", message, flags=re.M)[1:]
    assert parts[names.index("shard")] == karez("opt", graph, "--passes", "canonicalise,shard")
    assert parts[-1] == karez("opt", graph, "--passes", "all")


def test_a_plan_of_opt_is_valid_and_gives_the_result_of_one_device(graph, tmp_path):
    outputs = set()
    for mesh in ("", "data=2", "data=2, model=2"):
        text = GRAPH.replace("mesh(data=2, model=2)", f"mesh({mesh})").replace(
            "8@data, 6", "8, 6" if mesh == "" else "8@data, 6"
        )
        plan = tmp_path / "made.plan"
        plan.write_text(karez("opt", "-", "--passes", "all", stdin=text))
        assert "valid" in karez("plan", "verify", plan)
        message = karez("exec", plan, "--launches", 1)
        outputs.add(re.search(r"\n  y (f32\[8, 4\] = \S+, \S+, \S+), \.\.\.", message).group(1))
    assert len(outputs) == 1


MODULES = """graph main {
  variable "w" : f32[4, 4] read %1
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = variable() {dtype="f32", name="w", shape=[4, 4]} : f32[4, 4]
  %2 = matmul(%0, %1) : f32[2, 4] in "net.one"
  %3 = tanh(%2) : f32[2, 4] in "net.one"
  %4 = matmul(%3, %1) : f32[2, 4] in "net.two"
  %5 = tanh(%4) : f32[2, 4] in "net.two"
  %6 = exp(%4) : f32[2, 4] in "net.two.grad"
  %7 = mul(%6, %2) : f32[2, 4] in "net.one.grad"
  output "y" %5
  output "g" %7
}
"""


def test_a_plan_with_recomputed_modules_gives_the_same_result(tmp_path):
    outputs = set()
    for globs, products in (("", 2), ("net.one", 3), ("net.{one,two}", 4)):
        plan = tmp_path / "made.plan"
        plan.write_text(karez("opt", "-", "--passes", "all", "--remat", globs, stdin=MODULES))
        assert len(re.findall(r'^  call "[^"]*matmul', plan.read_text(), re.M)) == products
        outputs.add("".join(re.findall(r"\n  [yg] f32\[2, 4\] = .*", karez("exec", plan, "--launches", 1))))
    assert len(outputs) == 1 and outputs.pop().count("f32[2, 4]") == 2


@pytest.mark.parametrize(
    "passes, text",
    [
        ("shrd", "no pass is called 'shrd'; "),
        ("", "--passes '': a name is empty\n"),
        ("shard,,box", "--passes 'shard,,box': a name is empty\n"),
        ("box", "--passes 'box': box needs data that shard keeps outside of the graph; add shard\n"),
        ("shard,order", "--passes 'shard,order': order needs data that box keeps outside of the graph; add box\n"),
        (
            "shard,canonicalise",
            "--passes 'shard,canonicalise': canonicalise comes before shard in the pipeline; the only order is unroll, canonicalise, ",
        ),
        ("shard,shard", "--passes 'shard,shard': shard comes before shard in the pipeline; "),
    ],
)
def test_opt_rejects_an_invalid_list_of_passes(passes, text, graph):
    assert karez("opt", graph, "--passes", passes, code=USER).startswith("karez: " + text)


@pytest.mark.parametrize(
    "old, new, text",
    [
        ("relu(%2)", "rleu(%2)", "graph: line 6, column 8: no op is called 'rleu'; "),
        ("add(%1, %1) : f32[4, 6]", "add(%1, %1) : f32[4, 7]", ""),
        ("f32[8@data, 6]", "f32[8@pipe, 6]", ""),
        ("relu(%2)", "relu(%7)", ""),
        ("}\n", "", ""),
    ],
)
def test_opt_names_the_file_with_an_invalid_graph(old, new, text, graph):
    assert old in GRAPH
    graph.write_text(GRAPH.replace(old, new, 1) if old != "}\n" else GRAPH[:-2])
    assert karez("opt", graph, code=DATA).startswith(f"karez: {graph}: {text}")


def test_opt_does_not_shard_a_boxed_program(graph):
    boxed = karez("opt", graph)
    message = karez("opt", "-", "--passes", "shard", stdin=boxed, code=USER)
    assert re.match(
        r"karez: -: box at net\.cc:\d \(?.*is a change of layout, inserted by box; shard takes the program before box\n",
        message,
    )
