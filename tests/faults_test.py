"""What happens when something breaks: ranks that stop, hang, throw or are slow, hosts that part, and whatever is no fault at all."""

import os
import random
import re
import signal
import subprocess
import time

import pytest

from run_test import KAREZ, MARK, ROOT_OF_MPI, MPIRUN, Started, command, namespaces, needs_mpirun  # noqa: F401 (fixtures)

PEER, HANG, USER = 75, 76, 64
ALL = bool(os.environ.get("KAREZ_ALL"))
TRIALS = 20 if ALL else 1
RANK = os.path.join(os.path.dirname(KAREZ), "faulty_rank")
TIMEOUT = 2  # peer_timeout of these ranks


def job(*words, ranks=3, before=(), **options):
    return Started("run", "-n", ranks, *before, RANK, *words, **options)


def ranks_of(started, count):
    """Process ids by rank, once all are there."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        found = {}
        for process in started.alive():
            if command(process)[:1] == [RANK]:
                with open(f"/proc/{process}/environ", "rb") as file:
                    rank = re.search(rb"(?:^|\0)(?:KAREZ|OMPI_COMM_WORLD)_RANK=(\d+)", file.read())
                if rank:
                    found[int(rank[1])] = process
        if len(found) == count:
            return found
        time.sleep(0.01)
    raise AssertionError("the ranks have not come")


def await_step(started, step):
    for line in started.process.stdout:
        if f"step {step} " in line:
            return
    raise AssertionError(started.process.stderr.read())


def lines_of(result, rank):
    return [line for line in result.stderr.splitlines() if line.startswith(f"[{rank}] ")]


WAIT = r"  rank \d waits for (rank \d|the others): (a\d+ '[^']+' of launch \d+ \(.*faulty_rank\.cc:\d+\), r\d+|launch \d+ has ended here, not yet on all ranks)"


def test_a_stopped_rank_is_named_with_who_waits_for_it():
    slowest = 0
    for trial in range(TRIALS):
        started = job()
        ranks = ranks_of(started, 3)
        await_step(started, 20)
        time.sleep(random.random() * 0.5)
        victim = trial % 3
        os.kill(ranks[victim], signal.SIGSTOP)
        begin = time.monotonic()
        result = started.wait(20)
        slowest = max(slowest, time.monotonic() - begin)
        started.nothing_left(0.5)
        assert result.returncode == HANG, result
        told = [rank for rank in range(3) if any(f"rank {victim} (" in line and f"process {ranks[victim]}) has stopped: no heartbeat for" in line for line in lines_of(result, rank))]
        assert told == [rank for rank in range(3) if rank != victim], result.stderr
        assert re.search(rf"^\[\d\] {WAIT}$", result.stderr, re.M), result.stderr
        assert re.search(r"^karez run: exit code 76, as told by rank \d ", result.stderr, re.M)
    print(f"{TRIALS} of {TRIALS}: a stopped rank was named, and all were down within {slowest:.2f} s")
    assert slowest <= TIMEOUT + 2


@pytest.mark.parametrize("place, said", [("kernel", r"a\d+ '[^']+' of launch \d+ \(work at \S*faulty_rank\.cc:\d+\)"),
                                         ("source", r"a\d+ 'input arg0' of launch \d+ \(its source, \S*faulty_rank\.cc:\d+\)")])
def test_a_call_that_does_not_end_is_named(place, said):
    for victim in (0, 1):
        started = job("--fault", place, "--rank", victim, "--seconds", 60)
        await_step(started, 4)
        begin = time.monotonic()
        result = started.wait(20)
        assert result.returncode == HANG, result
        assert re.search(rf"^\[\d\] .*rank {victim} \(\S+, process \d+\) has been inside {said} for \d\.\d s$", result.stderr, re.M), result.stderr
        assert re.search(rf"^\[\d\] {WAIT}$", result.stderr, re.M), result.stderr
        assert time.monotonic() - begin <= TIMEOUT + 2
        started.nothing_left(0.5)


def test_a_long_call_is_a_warning_where_calls_may_take_so_long():
    started = job("--fault", "kernel", "--seconds", 4, "--call-timeout", 60, "--steps", 8)
    result = started.wait(20)
    assert result.returncode == 0, result
    warnings = [line for line in result.stderr.splitlines() if "warning" in line]
    assert len(warnings) == 1 and re.match(r"\[0\] karez warning: rank 1 \(.*\) has been inside a\d+ .* and others wait", warnings[0]), result.stderr


@pytest.mark.parametrize("place, code", [("host", 3), ("kernel", USER), ("source", USER)])
def test_what_one_rank_throws_is_told_first_and_then_who_ended_because_of_it(place, code):
    for victim in range(3):
        started = job("--fault", f"throw-{place}", "--rank", victim)
        await_step(started, 4)
        begin = time.monotonic()
        result = started.wait(20)
        assert time.monotonic() - begin <= 1 + 0.5, "with the end of all"
        assert result.returncode == code, result
        said = re.search(rf"^karez run: rank {victim} \(\S+, process \d+\) said: faulty_rank: .*the {place} broke at step 5.*\n"
                         rf"karez run: because of it ended rank (\d) with 75, rank (\d) with 75\n"
                         rf"karez run: exit code {code}, because of rank {victim} ", result.stderr, re.M)
        assert said and {said[1], said[2], str(victim)} == {"0", "1", "2"}, result.stderr
        for rank in range(3):
            steps = re.findall(rf"^\[{rank}\] step (\d+) ", result.stdout, re.M)
            assert "5" not in steps, "nobody has a result of that launch"
            if rank != victim:
                assert any(f"rank {victim}: " in line for line in lines_of(result, rank)), result.stderr


def test_nothing_is_accused_that_is_no_fault():
    """Long work on the host, pauses of all ranks, and short ones of single ranks: no verdict, no warning, and the job ends well."""
    started = job("--fault", "slow-host", "--seconds", 0.002, "--steps", 10**9)
    ranks = ranks_of(started, 3)
    await_step(started, 10)
    until = time.monotonic() + (180 if ALL else 12)
    paused = 0
    while time.monotonic() < until:
        group = list(ranks.values())
        random.shuffle(group)
        whole = random.random() < 0.5
        if not whole:
            group = group[:random.randrange(1, 3)]
        for process in group:
            os.kill(process, signal.SIGSTOP)
        time.sleep(random.uniform(TIMEOUT, 2 * TIMEOUT) if whole else random.uniform(0, 0.6 * TIMEOUT))
        for process in group:
            os.kill(process, signal.SIGCONT)
        paused += 1
        time.sleep(random.uniform(0, 0.7))
        assert started.process.poll() is None, started.process.stderr.read()
    started.process.send_signal(signal.SIGINT)
    result = started.wait(20)
    started.nothing_left()
    assert "has stopped" not in result.stderr and "warning" not in result.stderr and "cannot be reached" not in result.stderr, result.stderr
    print(f"{paused} pauses, no verdict")


def test_a_rank_that_computes_for_long_between_launches_is_no_hang():
    started = job("--fault", "host", "--seconds", 3 * TIMEOUT, "--steps", 8)
    result = started.wait(30)
    assert result.returncode == 0 and "warning" not in result.stderr, result


def test_a_partition_ends_both_sides_with_the_peers_name(namespaces, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"{name} slots=2\n" for name in namespaces))
    wire = subprocess.run(["ip", "-n", namespaces[1], "-o", "link", "show", "type", "veth"], capture_output=True, text=True).stdout.split()[1].split("@")[0]
    slowest = 0
    for _ in range(TRIALS):
        subprocess.run(["ip", "-n", namespaces[1], "link", "set", wire, "up"], check=True)
        started = job(ranks=4, before=["--hosts", hosts, "--rsh", "ip netns exec", "--address", "10.77.0.1"])
        await_step(started, 20)
        subprocess.run(["ip", "-n", namespaces[1], "link", "set", wire, "down"], check=True)
        begin = time.monotonic()
        result = started.wait(20)
        slowest = max(slowest, time.monotonic() - begin)
        assert result.returncode == PEER, result
        for side, other in (((0, 1), "[23]"), ((2, 3), "[01]")):
            said = "\n".join(line for rank in side for line in lines_of(result, rank))
            assert re.search(rf"rank {other} \(\S+, process \d+\)", said), result.stderr
        started.nothing_left()
    print(f"{TRIALS} of {TRIALS}: both sides named the other within {slowest:.2f} s")
    assert slowest <= TIMEOUT + 2


@needs_mpirun
def test_a_stopped_rank_ends_a_job_of_mpirun():
    started = Started("-n", 3, RANK, program=MPIRUN, environment=ROOT_OF_MPI)
    ranks = ranks_of(started, 3)
    await_step(started, 20)
    os.kill(ranks[1], signal.SIGSTOP)
    result = started.wait(20)
    assert result.returncode != 0 and f"process {ranks[1]}) has stopped: no heartbeat for" in result.stderr, result
    started.nothing_left()
