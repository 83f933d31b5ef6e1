"""Tests of `karez run` when the output of its ranks cannot be written or is not read."""

# builds: karez_command
import re
import signal
import subprocess
import time

from jobs import Started, await_lines, shell
from karez_command import KAREZ


def test_a_full_disk_is_reported_once_and_the_job_continues(tmp_path):
    text = "for i in 1 2 3; do echo line $i; sleep 0.1; done; echo done >&2; exit $KAREZ_RANK"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [KAREZ, "run", "-n", "1", *shell(text)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 0, done
    assert sorted(done.stderr.splitlines()) == [
        "[0] done",
        "karez run: cannot write to standard output: No space left on device; the job continues without this output",
    ]
    small = (
        f"trap '' XFSZ; ulimit -f 1; exec {KAREZ} run -n 2 --output {tmp_path} sh -c 'head -c 100000 /dev/zero; "
        f"echo end > {tmp_path}/end$KAREZ_RANK'"
    )
    done = subprocess.run(shell(small), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    lines = [
        f"karez run: cannot write to {tmp_path}/rank{rank}.txt: File too large; the job continues without this output"
        for rank in (0, 1)
    ]
    assert sorted(done.stderr.splitlines()) == lines
    assert (tmp_path / "end0").read_text() == (tmp_path / "end1").read_text() == "end\n"


def test_a_closed_reader_ends_the_job():
    started = Started("run", "-n", 1, *shell("while echo line; do sleep 0.01; done"))
    await_lines(started.process, 3)
    started.process.stdout.close()
    started.process.stdout = None
    done = started.wait()
    started.nothing_left()
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr == "karez run: cannot write to standard output: Broken pipe; the job ends\n"


def test_a_failed_rank_is_reported_although_the_output_is_not_read():
    started = Started("run", "-n", 2, *shell("[ $KAREZ_RANK = 0 ] && yes; sleep 1; exit 3"))
    assert re.fullmatch(r"karez run: rank 1 \(.*\) ended with exit code 3\n", started.process.stderr.readline())
    started.process.kill()
    started.process.communicate()
    started.nothing_left()


def test_a_reader_that_pauses_gets_every_line():
    started = Started("run", "-n", 2, *shell("seq 1 100000"))
    time.sleep(1)  # the output of both ranks exceeds all buffers
    done = started.wait(60)
    assert done.returncode == 0 and done.stderr == ""
    for rank in "01":
        assert [line[4:] for line in done.stdout.splitlines() if line.startswith(f"[{rank}] ")] == [
            str(i + 1) for i in range(100000)
        ]
    started.nothing_left()


def test_ctrl_c_ends_a_job_whose_output_is_not_read():
    started = Started("run", "-n", 2, *shell("sleep $KAREZ_RANK; echo begun >&2; yes"))
    assert [started.process.stderr.readline() for _ in range(2)] == ["[0] begun\n", "[1] begun\n"], (
        "rank 1 begins after the buffers are full, and its line must still arrive"
    )
    time.sleep(0.5)
    started.process.send_signal(signal.SIGINT)
    assert started.process.wait(timeout=30) == 128 + signal.SIGINT
    started.nothing_left()
    started.process.communicate()
