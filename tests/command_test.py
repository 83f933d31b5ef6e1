"""Tests of `karez plan`, with valid and with invalid plans, and of the help texts."""

# builds: karez_command fashion_mnist
import collections
import re
import subprocess

import numpy as np
import pytest
from karez_command import DATA, KAREZ, USER, edited, karez, makespan, plans


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
        ([], "karez: a subcommand is required; see karez --help\n"),
        (["plan"], "karez: a subcommand is required; see karez plan --help\n"),
        (
            ["plan", "shwo", "x"],
            "karez: unknown subcommand 'shwo' of karez plan; there are 4: show, diff, verify, explain; see "
            "karez plan --help\n",
        ),
        (["plan", "show"], "karez: FILE is required; see karez plan show --help\n"),
        (["plan", "show", "a", "b"], "karez: the following argument was not expected: b; see karez plan show --help\n"),
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
    path = edited(plans, tmp_path, (" bytes 256 in", " slots 3 bytes 256 in"))  # overlaps its neighbours in the arena
    assert "no tokens keep them apart" in karez("plan", "verify", path, code=DATA)
    path = edited(plans, tmp_path, (" bytes 200704 in", " slots 300 bytes 200704 in"))
    assert karez("plan", "verify", path, code=DATA).startswith(
        f"karez: {path}: register r0 (f32[64, 1, 28, 28;]) ends at byte "
    )


def test_verify_rejects_every_plan_that_exec_rejects(plans, tmp_path):
    rng, outcomes = np.random.default_rng(7), collections.Counter()
    for name in ("mlp.plan", "mlp2.plan", "cnn.plan"):
        text = (plans / name).read_text()
        numbers = list(re.finditer(r"\d+", text))
        for at in rng.choice(len(numbers), 40):
            number = numbers[at]
            new = str(rng.choice([int(number.group()) + 1, int(number.group()) * 2, 0, 7]))
            path = tmp_path / "edited.plan"
            path.write_text(text[: number.start()] + new + text[number.end() :])
            verify_result = subprocess.run([KAREZ, "plan", "verify", path], capture_output=True, text=True, timeout=300)
            if verify_result.returncode == 0:
                exec_result = subprocess.run(
                    [KAREZ, "exec", path, "--launches", "1", "--warm-up", "0"],
                    capture_output=True,
                    text=True,
                    timeout=300,
                )
                assert exec_result.returncode == 0, (
                    name,
                    text[number.start() - 60 : number.end() + 20],
                    new,
                    exec_result.stderr,
                )
            outcomes[verify_result.returncode == 0] += 1
    assert min(outcomes[True], outcomes[False]) >= 20, outcomes


def test_verify_names_the_calls_that_it_cannot_check(plans, tmp_path):
    kernel = re.search(r"(plain|hwy|onednn)\.\w+", (plans / "mlp.plan").read_text()).group()
    message = karez("plan", "verify", edited(plans, tmp_path, (kernel, "fpga.matmul")))
    assert (
        "valid" in message and "not checked: 1 call of fpga.matmul, a kernel that this build does not have" in message
    )


def test_verify_reports_a_missing_turn(plans, tmp_path):
    # The communicator then has turn 1 twice and no turn 0.
    path = edited(plans, tmp_path, (" turn 0 ", " turn 1 "), name="mlp2.plan")
    message = karez("plan", "verify", path, code=DATA)
    assert "turn" in message


@pytest.mark.parametrize("words", [["plan", "show"], ["plan", "verify"]])
def test_an_invalid_plan_file_is_reported_with_its_line(words, plans, tmp_path):
    path = edited(plans, tmp_path, ("register r5: a5", "register r5: zz"))
    line = 1 + path.read_text().splitlines().index(
        next(line for line in path.read_text().splitlines() if line.startswith("register r5"))
    )
    assert karez(*words, path, code=DATA).startswith(
        f"karez: {path}: plan: line {line}, column 14: expected 'a' at 'zz -> a3"
    )
    assert (
        karez(*words, tmp_path / "none", code=DATA)
        == f"karez: cannot read {tmp_path}/none: No such file or directory\n"
    )
    assert karez(*words, tmp_path, code=DATA) == f"karez: cannot read {tmp_path}: it is a directory\n"


def test_diff_prints_the_lines_that_differ_and_returns_exit_code_1(plans, tmp_path):
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


def explain_parts(path, *more):
    """The sections of the report, by the first two words of their titles."""
    parts = karez("plan", "explain", path, "--rows", 1000, *more).split("\n\n")[1:]  # without the counts
    return {re.match(r"\w+ \w+", part).group(0): part.rstrip("\n").split("\n") for part in parts}


@pytest.mark.parametrize("name", ["mlp", "mlp2", "cnn"])
def test_the_critical_cycle_has_the_time_of_the_simulator(name, plans):
    title = explain_parts(plans / f"{name}.plan")["Critical cycle"][0]
    interval = re.search(r"one at a time: (\S+) us a launch", title).group(1)
    assert float(interval) == makespan(karez("simulate", plans / f"{name}.plan"))


def test_explain_lists_all_transfers_with_their_bytes(plans):
    title, heads, *rows = explain_parts(plans / "mlp2.plan")["Traffic between"]
    planned = [int(n) for n in re.findall(r"^transfer .* bytes (\d+)", (plans / "mlp2.plan").read_text(), re.M)]
    assert heads.split() == ["us", "bytes", "kind", "axis", "value"]
    assert sorted(int(row.split()[1]) for row in rows) == sorted(planned)
    assert f"{len(planned)} transfers, " in title and f"({sum(planned)} bytes) a launch" in title
    times = [float(row.split()[0]) for row in rows]
    assert times == sorted(times, reverse=True) and times[-1] > 0
    assert abs(float(re.search(r"a launch, (\S+) us", title).group(1)) - sum(times)) < 0.1 * len(times)
    assert explain_parts(plans / "mlp.plan")["Traffic between"] == ["Traffic between devices: none"]


def test_explain_lists_the_variables_and_the_state_of_each_module(plans):
    text = (plans / "mlp.plan").read_text()
    sizes = {
        name: int(size)
        for size, name in re.findall(r'^block b\d+: variable device 0 bytes (\d+) name "([^"]+)"', text, re.M)
    }
    rows = {
        row.split()[-1]: re.split(r"  +", row.strip()) for row in explain_parts(plans / "mlp.plan")["Memory by"][2:-1]
    }
    for module in ("fc1", "fc2", "fc3", "fc4"):
        own_bytes = sum(size for name, size in sizes.items() if name.startswith(module + "."))
        state = sum(size for name, size in sizes.items() if name.startswith("adam.") and f".{module}." in name)
        assert state == 2 * own_bytes
        total, variables, their_state, registers, _ = rows[module]
        assert [total, variables, their_state, registers] == [
            bytes_text(own_bytes + state),
            bytes_text(own_bytes),
            bytes_text(state),
            "-",
        ]
    assert rows["adam"][1] == "8 B"  # its step count, which is not the state of a module


def bytes_text(n):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= unit:
            return f"{n / unit:.2f} {name}"
    return f"{n} B"


def test_explain_sums_the_time_of_each_source_line(plans):
    page = explain_parts(plans / "cnn.plan")
    title, heads, *rows = page["Source lines"]
    times = [float(row.split()[0]) for row in rows]
    assert times == sorted(times, reverse=True)
    assert abs(float(re.search(r"backward: (\S+) us", title).group(1)) - sum(times)) < 0.1 * len(times)
    assert re.search(r"fashion_mnist\.cc:\d+  conv2d", rows[0])
    text = (plans / "cnn.plan").read_text()
    # The other three calls are inputs.
    assert sum(int(re.split(r"  +", row.strip())[2]) for row in rows) == text.count('\n  call "') + 3


def test_explain_reports_omitted_rows(plans):
    assert "  ... and " in karez("plan", "explain", plans / "mlp2.plan", "--rows", 2)
    message = karez("plan", "explain", plans / "mlp2.plan", "--rows", -1, code=USER)
    assert message == "karez: --rows must be at least 0, got -1\n"
