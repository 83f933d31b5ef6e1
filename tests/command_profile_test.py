"""Tests of `karez profile`: tables and traces of programs in C++, of one rank and of two."""

# builds: karez_command fashion_mnist
import json
import os
import signal
import subprocess

from example_test import EXAMPLE, data  # noqa: F401
from karez_command import DATA, KAREZ, USER, karez

TRAIN = ["--model", "mlp", "--mesh", "", "--epochs", "2"]


def spans_of(path):
    trace = json.loads(path.read_text())
    assert trace["otherData"]["lost_events"] == 0
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    lanes = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            lanes.setdefault((event["pid"], names[event["pid"], event["tid"]]), []).append(event)
    for spans in lanes.values():
        spans.sort(key=lambda e: e["ts"])
        for before, after in zip(spans, spans[1:]):
            assert before["ts"] + before["dur"] <= after["ts"] + 0.0011
    return lanes


def test_a_program_is_profiled_without_a_change(data, tmp_path):  # noqa: F811
    out = karez("profile", "--steps", 4, "--skip", 1, "--out", tmp_path / "out", EXAMPLE, "--data", data, *TRAIN)
    assert "4 launches, " in out and "onednn.matmul" in out and "sum of the ops" in out
    assert f"wrote {tmp_path}/out/trace.json for https://ui.perfetto.dev\n" in out
    assert sorted(os.listdir(tmp_path / "out")) == ["profile.0.json", "profile.0.txt", "trace.json"]
    lanes = spans_of(tmp_path / "out" / "trace.json")
    assert len(lanes[0, "launches"]) == 4
    assert len(lanes[0, "worker 0"]) > 4
    # The next run replaces the files.
    (tmp_path / "out" / "profile.7.json").write_text("old")
    out = karez("profile", "--steps", 100, "--out", tmp_path / "out", EXAMPLE, "--data", data, *TRAIN)
    assert " launches, " in out and "100 launches" not in out
    assert sorted(os.listdir(tmp_path / "out")) == ["profile.0.json", "profile.0.txt", "trace.json"]


def test_ranks_are_in_one_trace_on_one_clock(data, tmp_path):  # noqa: F811
    words = ["--model", "mlp", "--mesh", "data=2", "--devices", "1", "--epochs", "1"]
    command = [KAREZ, "profile", "-n", "2", "--steps", "2", "--skip", "1", "--out", tmp_path / "out"]
    result = subprocess.run([*command, EXAMPLE, "--data", data, *words], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result
    out, tmp_path = result.stdout, tmp_path / "out"
    assert "profile.0: 2 launches, " in out and "profile.1: 2 launches, " in out and "all_reduce of " in out
    lanes = spans_of(tmp_path / "trace.json")
    first, second = lanes[0, "launches"], lanes[1, "launches"]
    assert len(first) == len(second) == 2
    for a, b in zip(first, second):  # an all_reduce waits for both ranks, so their launches overlap
        assert a["ts"] < b["ts"] + b["dur"] and b["ts"] < a["ts"] + a["dur"]
    again = tmp_path / "again.json"
    karez("profile", "--merge", again, tmp_path / "profile.0.json", tmp_path / "profile.1.json")
    assert again.read_text() == (tmp_path / "trace.json").read_text()


def test_the_exit_code_is_that_of_the_program(tmp_path):
    result = subprocess.run(
        [KAREZ, "profile", "sh", "-c", "cat; exit 3"],
        cwd=tmp_path,
        input="in",
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert (result.returncode, result.stdout, result.stderr) == (3, "in", "")
    result = subprocess.run([KAREZ, "profile", "sh", "-c", "kill -9 $$"], cwd=tmp_path, timeout=60)
    assert result.returncode == 128 + 9


def test_a_signal_reaches_the_program(tmp_path):
    script = "trap 'echo ended; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen([KAREZ, "profile", "sh", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0] == "ended\n"
    assert process.returncode == 5


def test_wrong_arguments_are_errors(tmp_path):
    for words, message in [
        ([], "PROGRAM is required; see karez profile --help"),
        (["--bogus", "true"], "unknown option '--bogus'; see karez profile --help"),
        (["--steps", "0", "true"], "--steps must be at least 1, got 0"),
        (["--skip", "-1", "true"], "--skip must be at least 0, got -1"),
        (["--devices", "-1", "true"], "--devices must be 0 to 65536, got -1"),
        (["-n", "0", "true"], "-n must be 1 to 65536 ranks, got 0"),
        (["--out", tmp_path, "true"], "the program has written no profile: it created no world, or was ended"),
        (["--out", tmp_path, "no-such-program"], "cannot start 'no-such-program': No such file or directory"),
        (["--merge", tmp_path / "x"], "--merge requires the files to merge; see karez profile --help"),
    ]:
        assert karez("profile", *words, code=USER) == f"karez: {message}\n"
    (tmp_path / "bad.json").write_text("[]")
    error = karez("profile", "--merge", tmp_path / "x", tmp_path / "bad.json", code=DATA)
    assert f"karez: {tmp_path}/bad.json is not a trace that a Karez program has written: " in error
    assert not (tmp_path / "x").exists()
