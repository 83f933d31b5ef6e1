"""Tests of the `karez run` command line: each rank's variables, output and exit; no process remains after a job."""

# builds: karez_command
import os
import random
import re
import shutil
import signal
import subprocess
import time

from jobs import DOCTOR, PEER, STUBBORN, TRIALS, Started, await_lines, no_new_shm_segments, python, run, shell
from karez_command import DATA, KAREZ, USER


def test_each_rank_receives_its_variables():
    result = run(
        "-n",
        3,
        "--devices",
        2,
        *shell(
            "echo $KAREZ_RANK $KAREZ_RANKS $KAREZ_LOCAL_RANK $KAREZ_LOCAL_RANKS $KAREZ_DEVICES $KAREZ_STORE "
            "$KAREZ_TOKEN"
        ),
    )
    assert (result.returncode, result.stderr) == (0, "")
    lines = sorted(result.stdout.splitlines())
    assert [line.split()[:6] for line in lines] == [[f"[{r}]", str(r), "3", str(r), "3", "2"] for r in range(3)]
    (store, token), *others = [tuple(line.split()[6:]) for line in lines]
    assert all(item == (store, token) for item in others)
    assert re.fullmatch("@karez-[0-9a-f]{32}", store) and re.fullmatch("[0-9a-f]{64}", token)
    assert token not in run("-n", 1, *shell("echo $KAREZ_TOKEN")).stdout, "each job must get a new token"


def test_invalid_arguments_are_rejected_by_run(tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\n")
    for words, message in [
        ([], "karez: PROGRAM is required; see karez run --help\n"),
        (["-n", "2"], "karez: PROGRAM is required; see karez run --help\n"),
        (["-n", "0", "true"], "karez: -n must be 1 to 65536 ranks, got 0\n"),
        (["-n", "x", "true"], "karez: --ranks: invalid number 'x'; see karez run --help\n"),
        (["--bogus", "true"], "karez: unknown option '--bogus'; see karez run --help\n"),
        (["--devices", "-1", "true"], "karez: --devices must be 0 to 65536, got -1\n"),
        (["no-such-program-of-ours"], "karez: cannot start 'no-such-program-of-ours': No such file or directory\n"),
        (["-n", "2", str(tmp_path)], f"karez: cannot start '{tmp_path}': Permission denied\n"),
        (
            ["-n", "2", "--hosts", str(hosts), "true"],
            "karez: 2 ranks requested, but the hosts have only 1 slot in total (localhost: 1)\n",
        ),
    ]:
        result = run(*words)
        assert (result.returncode, result.stdout, result.stderr) == (USER, "", message), words
    result = run("--hosts", tmp_path / "none", "true")
    assert result.returncode == DATA and "cannot read" in result.stderr


def test_options_after_the_program_belong_to_it():
    assert run("-n", 1, "printf", "%s|", "-n", "--help", "--rsh").stdout == "[0] -n|--help|--rsh|\n"
    assert run("-n", 1, "--", "printf", "%s|", "--", "x").stdout == "[0] --|x|\n"


def test_ranks_are_bound_to_separate_cores():
    cores = len(os.sched_getaffinity(0))
    show = python("import os; print(*sorted(os.sched_getaffinity(0)), os.environ['KAREZ_CROWDED'])")
    lines = run("-n", cores, *show).stdout.splitlines()
    assert len(lines) == cores
    assert all(line.endswith(" 0") for line in lines)
    dealt = [core for line in lines for core in line.split()[1:-1]]
    assert sorted(map(int, dealt)) == sorted(os.sched_getaffinity(0)), "each core must belong to one rank"
    everywhere = " ".join(map(str, sorted(os.sched_getaffinity(0))))
    for words, crowded in ((["-n", cores + 1], 1), (["-n", 1, "--loose"], 0)):
        for line in run(*words, *show).stdout.splitlines():
            assert line.split("] ")[1] == f"{everywhere} {crowded}"


def test_lines_do_not_mix_and_bytes_are_not_changed():
    text = (
        "import sys, os\nr = os.environ['KAREZ_RANK']\nfor i in range(2000): sys.stdout.write(r * 50); "
        "sys.stdout.write(chr(10))"
    )
    lines = run("-n", 3, *python(text)).stdout.splitlines()
    assert sorted(set(lines)) == [f"[{r}] " + str(r) * 50 for r in range(3)] and len(lines) == 6000
    result = run("-n", 1, "--", *shell(r"printf 'a\000\377b'; printf 'to error' >&2"), errors="surrogateescape")
    assert result.stdout == "[0] a\0\udcffb\n"
    assert result.stderr == "[0] to error\n"


def test_output_goes_to_a_file_for_each_rank(tmp_path):
    folder = tmp_path / "a" / "b"
    result = run("-n", 2, "--output", folder, *shell('printf "out $KAREZ_RANK"; printf error >&2'))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert [sorted((folder / f"rank{r}.txt").read_text().replace("error", "", 1).split()) for r in (0, 1)] == [
        ["0", "out"],
        ["1", "out"],
    ]
    (tmp_path / "file").write_text("")
    result = run("--output", tmp_path / "file", "true")
    assert result.returncode == DATA and "cannot" in result.stderr


def test_standard_input_of_a_rank_is_empty():
    assert run("-n", 2, "cat", stdin=subprocess.DEVNULL).returncode == 0


def test_the_first_rank_that_fails_ends_the_others_with_its_exit_code():
    result = run("-n", 3, *shell("[ $KAREZ_RANK = 1 ] && exit 3; sleep 100"))
    assert result.returncode == 3
    assert re.fullmatch(
        r"karez run: (rank 1 \(\S+, process \d+\)) ended with exit code 3\nkarez run: exit code 3, because of \1\n",
        result.stderr,
    )


def test_a_signal_is_reported_and_the_exit_code_is_that_of_a_lost_peer():
    # Rank 0 reports a dead peer, as a world does, before or after karez run detects that rank 1 was killed.
    for first, second in ((0, 0.3), (0.3, 0)):
        result = run(
            "-n",
            2,
            *shell(
                f"if [ $KAREZ_RANK = 1 ]; then sleep {first}; kill -9 $$; fi; sleep {second}; echo rank 1 is gone "
                f">&2; exit 75"
            ),
        )
        assert result.returncode == PEER
        assert re.search(
            r"^karez run: rank 1 \(\S+, process \d+\) was ended by signal 9 \(Killed\)$", result.stderr, re.M
        )
        assert re.search(r"^karez run: exit code 75, because of rank 1 ", result.stderr, re.M)
        assert "[0] rank 1 is gone\n" in result.stderr


def test_a_rank_that_ignores_signals_is_killed():  # command_test 'ShutdownEscalation.*' tests after how many seconds
    result = run("-n", 2, *shell("trap '' TERM INT; [ $KAREZ_RANK = 1 ] && exit 4; while :; do sleep 0.1; done"))
    assert result.returncode == 4


def test_ctrl_c_reaches_all_ranks():
    started = Started("run", "-n", 3, *shell("trap 'echo over; exit 0' INT; echo ready; while :; do sleep 0.05; done"))
    assert sorted(await_lines(started.process, 3)) == [f"[{r}] ready\n" for r in range(3)]
    started.process.send_signal(signal.SIGINT)
    result = started.wait()
    assert result.returncode == 128 + signal.SIGINT
    assert sorted(result.stdout.splitlines()) == [f"[{r}] over" for r in range(3)]
    started.nothing_left()


def test_ctrl_c_twice_does_not_wait():
    started = Started("run", "-n", 2, *shell("trap '' INT TERM; echo ready; while :; do sleep 0.05; done"))
    await_lines(started.process, 2)
    begin = time.monotonic()
    for _ in range(3):
        started.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert started.wait().returncode == 128 + signal.SIGINT
    assert time.monotonic() - begin < 4, "must be faster than after one Ctrl-C, which takes 4 s"
    started.nothing_left()


def test_all_ranks_end_when_karez_run_is_terminated():
    started = Started("run", "-n", 2, *shell("echo ready; sleep 100"))
    await_lines(started.process, 2)
    started.process.terminate()
    assert started.wait().returncode == 128 + signal.SIGTERM
    started.nothing_left()


def test_no_process_remains_when_karez_run_is_killed():
    for _ in range(TRIALS):
        segments = set(os.listdir("/dev/shm"))
        started = Started("run", "-n", 3, *STUBBORN)
        await_lines(started.process, 3)
        time.sleep(random.random() * 0.2)
        assert len(started.alive()) >= 6
        started.process.kill()
        started.process.wait()
        started.nothing_left()
        assert no_new_shm_segments(segments)
        started.wait()


def test_no_process_remains_when_karez_run_is_killed_while_it_starts():
    for _ in range(TRIALS * 3):
        started = Started("run", "-n", 4, *STUBBORN)
        time.sleep(random.random() * 0.05)
        started.process.kill()
        started.process.wait()
        started.nothing_left()
        started.wait()


def test_children_of_ended_ranks_end_with_the_job():
    assert run("-n", 2, *shell("sleep 100 >/dev/null 2>&1 & echo done")).returncode == 0


def test_a_closed_output_ends_the_job():
    started = Started("run", "-n", 2, *shell("while :; do echo line; done"))
    started.process.stdout.readline()
    started.process.stdout.close()
    assert started.process.wait(20) == 128 + signal.SIGTERM
    started.nothing_left()
    started.process.stderr.close()


def test_the_doctor_measures_links_and_writes_costs(tmp_path):
    costs = tmp_path / "costs"
    started = Started("doctor", "-n", 3, "--costs", costs)
    result = started.wait(DOCTOR)
    started.nothing_left()
    assert (result.returncode, result.stderr) == (0, ""), result
    assert result.stdout.startswith("3 ranks on 1 host\n")
    for link in ("shm", "tcp"):
        _, pairs, alpha, beta, rate, *_ = re.search(rf"^  {link} .*", result.stdout, re.M)[0].split()
        assert pairs == "3" and 0.1 < float(alpha) < 20000 and abs(float(beta) * float(rate) - 1) < 0.1
    assert len(re.findall(r"^ +\d  \S+, process \d+ +1( +\d+\.\d){3}$", result.stdout, re.M)) == 3
    assert "clocks: no link between different hosts\n" in result.stdout and "versions: all the same: " in result.stdout
    lines = costs.read_text().splitlines()
    assert [re.sub(r"[-0-9.e+]+$", "", re.sub(r"alpha=\S+ ", "", line)) for line in lines[1:]] == [
        "link beta=",
        "link @shm beta=",
        "link @tcp beta=",
        "matmul_flops=",
        "conv_flops=",
        "memory_bytes=",
        "call=",
    ]
    assert lines[1] == lines[2].replace("@shm ", ""), "the default link must be shm on one host"
    (tmp_path / "bad").mkdir()
    assert Started("doctor", "--costs", tmp_path / "bad").wait(DOCTOR).returncode == DATA


def test_the_doctor_reports_ranks_with_different_programs(tmp_path):
    other = tmp_path / "karez"
    shutil.copy(KAREZ, other)
    with open(other, "ab") as file:
        file.write(b"\0")
    result = run("-n", 2, *shell(f"test $KAREZ_RANK = 0 || exec {other} doctor; exec {KAREZ} doctor"), seconds=DOCTOR)
    assert result.returncode == 0, result
    reports = r"\[0\] versions: \n\[0\]   rank 1 \(.+\) has a different program: (.+); rank 0 \(.+\) has (.+)\n"
    first, second = re.search(reports, result.stdout).groups()
    assert first != second


def test_the_doctor_waits_for_a_rank_that_starts_late():
    result = run("-n", 2, *shell(f"test $KAREZ_RANK = 0 || sleep 2; exec {KAREZ} doctor"), seconds=DOCTOR)
    assert result.returncode == 0 and "[0] 2 ranks on 1 host\n" in result.stdout, result


def test_the_doctor_rejects_invalid_arguments():
    result = Started("doctor", "-n", "1").wait()
    assert (result.returncode, result.stderr) == (
        USER,
        "karez: -n must be at least 2, because a link joins two ranks; got 1\n",
    )
    result = Started("doctor", environment={"RANK": "3"}).wait()
    assert (result.returncode, result.stderr) == (
        USER,
        "karez: RANK is 3, but WORLD_SIZE is not set; both are required\n",
    )
