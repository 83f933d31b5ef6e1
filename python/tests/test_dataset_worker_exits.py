"""Programs with worker processes: none is left however a program ends."""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import uuid

import pytest

import karez as kz

PACKAGE = pathlib.Path(kz.__file__).parent.parent
KAREZ = PACKAGE.parent / "tools" / "karez"
TRIALS = 50 if os.environ.get("KAREZ_ALL") else 3
HEAD = "import os, signal, sys, threading, time\nimport numpy as np\nimport karez as kz\nfrom karez import data\n"


class Program:
    """A program, whose processes are found by a variable of their environment."""

    def __init__(self, text, tmp_path, ranks=1):
        self.token = uuid.uuid4().hex
        path = tmp_path / "program.py"
        path.write_text(HEAD + text)
        run = [str(KAREZ), "run", "-n", str(ranks)] if ranks > 1 else []
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "TEST_TOKEN": self.token}
        environment.pop("PYTHONUNBUFFERED", None)  # the output of workers arrives without it
        self.process = subprocess.Popen(
            [*run, sys.executable, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def processes(self, word=b""):
        """The processes that exist, and whose command contains the word."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (
                    self.token.encode() in (folder / "environ").read_bytes()
                    and word in (folder / "cmdline").read_bytes()
                ):
                    found.append(int(folder.name))
            except OSError:  # it has ended
                continue
        return found

    def workers(self, count):
        """The worker processes, as soon as there are this many."""
        until = time.monotonic() + 60
        while len(found := self.processes(b"worker.py")) < count and self.process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.005)
        return found

    def nothing_is_left(self, seconds=20):
        until = time.monotonic() + seconds
        while left := self.processes():
            if time.monotonic() > until:
                return left
            time.sleep(0.005)
        return True

    def end(self, timeout=60):
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out, err


ENDLESS = """
def work(x):
    {work}
    return x
for x in data.range(10**9).map(work, 2, processes=True).batch(4): print(int(x[0]), flush=True)
"""
WORK = ["time.sleep(0.001)", "time.sleep(1000)", "while True: pass", "pass", "sum(range(10**9))"]


@pytest.mark.parametrize("work", WORK)
def test_nothing_is_left_after_the_program_was_killed(tmp_path, work):
    rng = random.Random(work)
    for _ in range(TRIALS):
        program = Program(ENDLESS.format(work=work), tmp_path)
        program.workers(rng.randrange(3))
        time.sleep(rng.uniform(0, 0.3))  # also while workers start
        program.process.kill()
        assert program.nothing_is_left() is True
        program.end()


@pytest.mark.parametrize("work", WORK[:3])
def test_ctrl_c_ends_the_program_and_its_workers_without_their_messages(tmp_path, work):
    text = "signal.signal(signal.SIGINT, signal.default_int_handler)\n" + ENDLESS.format(work=work)
    program = Program(text, tmp_path)
    program.workers(2)
    time.sleep(0.3)
    os.killpg(program.process.pid, signal.SIGINT)  # as a terminal does
    code, _, err = program.end()
    assert code in (-signal.SIGINT, 130) and err.count("Traceback") == 1 and "KeyboardInterrupt" in err
    assert program.nothing_is_left() is True


def test_ctrl_c_interrupts_reading_an_element_by_index(tmp_path):
    program = Program(
        """
signal.signal(signal.SIGINT, signal.default_int_handler)
def work(x):
    while x > 0: pass
    return x
dataset = data.range(3).map(work, 1, processes=True)
assert int(dataset[0]) == 0
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try: dataset[1]
except KeyboardInterrupt: print("interrupted", int(dataset[0]))
""",
        tmp_path,
    )
    assert program.end() == (0, "interrupted 0\n", "") and program.nothing_is_left() is True


@pytest.mark.parametrize(
    "end, code",
    [
        ("pass", 0),
        ("sys.exit(5)", 5),
        ("os._exit(6)", 6),
        ("raise RuntimeError('stop')", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os.abort()", -signal.SIGABRT),
        ("iterator.close()", 0),
    ],
)
def test_nothing_is_left_after_the_program_has_ended(tmp_path, end, code):
    program = Program(
        f"""
iterator = data.range(1000).map(lambda x: time.sleep(0.01) or x, 2).iterator()
print(next(iter(iterator)).numpy(), flush=True)
{end}
""",
        tmp_path,
    )
    found, out, _ = program.end()
    assert (found, out) == (code, "0\n") and program.nothing_is_left() is True


def test_nothing_is_left_after_a_thread_that_started_workers_has_ended(tmp_path):
    program = Program(
        """
dataset = data.range(4).map(lambda x: os.getpid(), 2, processes=True)
pids = []
thread = threading.Thread(target=lambda: pids.append(int(dataset[0])))
thread.start()
thread.join()
time.sleep(0.2)
assert pids == [int(dataset[1])], "the worker does not end with the thread that has started it"
os.kill(os.getpid(), signal.SIGKILL)
""",
        tmp_path,
    )
    assert program.end() == (-signal.SIGKILL, "", "") and program.nothing_is_left() is True


@pytest.mark.parametrize("victim", ["rank", "launcher", "worker"])
def test_nothing_is_left_after_kills_under_karez_run(tmp_path, victim):
    text = """
step = kz.compile(lambda x: x.sum())
def work(x):
    time.sleep(0.002)
    return np.float32(x)
for x in data.range(10**6).map(work, 2, processes=True).batch(4): step(x).numpy()
"""
    rng = random.Random(victim)
    for _ in range(TRIALS):
        program = Program(text, tmp_path, ranks=2)
        workers = program.workers(4)
        time.sleep(rng.uniform(0, 0.3))
        guards = set(program.processes(b"karez\0run\0"))  # of the launcher
        ranks = [pid for pid in program.processes(b"program.py") if pid not in guards]
        assert len(ranks) == 2 and len(workers) == 4
        if victim == "launcher":
            program.process.kill()
        else:
            os.kill(rng.choice(ranks if victim == "rank" else workers), signal.SIGKILL)
        code, _, err = program.end()
        assert code != 0 and program.nothing_is_left(60) is True
        if victim == "worker":
            assert re.search(r"worker process \d+ was killed by signal 9", err), err


def test_a_flat_script_needs_no_main_guard_and_prints_in_workers(tmp_path):
    program = Program(
        """
print("start", flush=True)
class Scaler:
    def __init__(self, factor): self.factor = factor
    def __call__(self, x): return Result(x * self.factor)
class Result:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return isinstance(other, Result) and self.x == other.x
def double(result):
    print(f"computed {result.x}")
    return isinstance(result, Result), result
doubled = data.range(3).map(Scaler(2), 2).map(double, 2)
results = list(doubled.as_numpy())
print([(bool(is_result), isinstance(result, Result), int(result.x)) for is_result, result in results])
class Broken(Exception): pass
def fail(x): raise Broken("no")
try: list(data.range(3).map(fail, 2))
except Broken as error: print("caught", error, flush=True)
os._exit(0)  # kills the workers, so that they must have written what they printed
""",
        tmp_path,
    )
    code, out, err = program.end()
    lines = out.splitlines()
    assert (code, err) == (0, "") and lines[0] == "start"
    assert sorted(lines[1:4]) == ["computed 0", "computed 2", "computed 4"]
    assert lines[4:] == ["[(True, True, 0), (True, True, 2), (True, True, 4)]", "caught no"]


def test_closing_in_the_middle_waits_for_running_functions_and_keeps_the_workers(tmp_path):
    program = Program(
        """
dataset = data.range(1000).map(lambda x: time.sleep(0.01) or os.getpid(), 2)
pids = set()
for _ in range(5):
    with dataset.iterator() as iterator:
        loop = iter(iterator)
        pids |= {int(next(loop)), int(next(loop))}
print(len(pids) <= 2)
""",
        tmp_path,
    )
    assert program.end() == (0, "True\n", "")


def test_a_forked_process_gets_an_error_and_leaves_the_workers_alone(tmp_path):
    program = Program(
        """
dataset = data.range(4).map(lambda x: x + 1, 2, processes=True)
assert int(dataset[0]) == 1
child = os.fork()
if child == 0:
    try: dataset[1]
    except kz.UserError as error: print("forked from a process with worker processes" in str(error), flush=True)
    own = data.range(4).map(lambda x: x + 2, 2, processes=True)
    print(int(own[0]), flush=True)
    del dataset
    time.sleep(1.5)  # a worker is killed a second after it was asked to end
    os._exit(0)
os.waitpid(child, 0)
print(int(dataset[2]))
""",
        tmp_path,
    )
    assert program.end() == (0, "True\n2\n3\n", "") and program.nothing_is_left() is True
