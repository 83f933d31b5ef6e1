"""Programs that end while data sets are being read: exit codes, output and time."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import karez as kz

PACKAGE = pathlib.Path(kz.__file__).parent.parent
HEAD = "import os, signal, sys, threading, time\nimport numpy as np\nimport karez as kz\nfrom karez import data\n"


def run(program, timeout=60, **options):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    return subprocess.run(
        [sys.executable, "-c", HEAD + program],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        **options,
    )


def test_a_program_may_end_with_an_open_iterator_and_running_functions():
    done = run("""
def slow(x):
    time.sleep(0.01)
    return x
iterator = data.range(1000).map(slow, 4).batch(4).iterator()
print(next(iter(iterator)).numpy())
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0 1 2 3]\n", "")


def test_an_exception_in_the_loop_ends_the_program():
    done = run("""
for i, x in enumerate(data.range(10**6).shuffle().map(lambda x: x, 3).batch(1)):
    if i == 3: raise RuntimeError("stop here")
""")
    assert done.returncode == 1 and done.stderr.count("\n") == 3 and "RuntimeError: stop here" in done.stderr


def test_exit_in_a_function_ends_the_program_with_its_code():
    done = run("list(data.range(5).map(lambda x: sys.exit(3)))")
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize("seconds", [0.2, 100])
def test_ctrl_c_interrupts_a_loop_that_waits(seconds):
    begin = time.monotonic()
    done = run(f"""
signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent process may have ignored the signal
def slow(x):
    if x == 3:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep({seconds})
    return x
try:
    for x in data.range(100).map(slow): pass
except KeyboardInterrupt:
    print("interrupted")
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")
    assert time.monotonic() - begin < 50, "the program does not wait for a function that runs for 100 seconds"


def test_a_dropped_iterator_does_not_wait_for_its_function():
    done = run("""
entered, release = threading.Event(), threading.Event()
def wait(x):
    entered.set()
    release.wait(60)
    return x
iterator = data.range(3).map(wait).iterator()
iterator.start(0)
entered.wait(60)
del iterator
release.set()
print("dropped")
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "dropped\n", "")


def test_a_forked_child_gets_errors_and_does_not_wait():
    done = run("""
entered, release = threading.Event(), threading.Event()
def wait(x):
    entered.set()
    release.wait(60)
    return x
read = data.range(100).map(wait).iterator()
idle = data.range(3).iterator()
loop = iter(idle)
next(loop)
thread = threading.Thread(target=lambda: list(read))
thread.start()
entered.wait(60)
child = os.fork()
if child == 0:
    errors = 0
    for call in (lambda: next(iter(read)), lambda: next(loop), read.state, idle.explain_data, lambda: idle.start(0),
                 lambda: next(iter(data.range(3)))):
        try:
            call()
        except kz.UserError as error:
            errors += "this process was forked" in str(error)
    read.close()
    del read, idle, loop
    print(errors, flush=True)
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
release.set()
read.close()
thread.join()
print([int(x) for x in loop])
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "6\n3\n[1, 2]\n", "")


def test_threads_end_with_their_data_sets_and_elements_are_freed():
    done = run("""
import gc, weakref
class Row: pass
alive = weakref.WeakSet()
def make(x):
    row = Row()
    alive.add(row)
    return row
for n in range(20):
    for i, row in enumerate(data.range(1000).map(make, 2).shuffle(buffer=50).prefetch(4)):
        if i == 5: break
    row = None
deadline = time.monotonic() + 30
while alive and time.monotonic() < deadline:
    gc.collect()
    time.sleep(0.01)
print(len(alive))
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_a_killed_program_leaves_a_checkpoint_from_which_the_rest_follows(tmp_path):
    """Kills a program at random moments; each time another one continues at the last checkpoint."""
    program = f"""
triple = lambda x: 3 * x
kept = data.range(200).shuffle(seed=3).filter(lambda x: x % 5).shuffle(buffer=20, seed=4)
dataset = kept.map(triple, 2, processes=False)
iterator = dataset.iterator()
path = {str(tmp_path / "c.safetensors")!r}
w = kz.nn.Parameter(kz.zeros(1))
touch = kz.compile(lambda: w * 1)
touch()
if os.path.exists(path):
    kz.load(path, data={{"train": iterator}})
with open({str(tmp_path / "log")!r}, "a") as log:
    for x in iterator.as_numpy():
        kz.save(path + ".next", data={{"train": iterator}})
        os.write(log.fileno(), f"{{x}}\\n".encode())
        os.replace(path + ".next", path)
"""
    expected = run("""
triple = lambda x: 3 * x
kept = data.range(200).shuffle(seed=3).filter(lambda x: x % 5).shuffle(buffer=20, seed=4)
dataset = kept.map(triple, 2, processes=False)
for x in dataset.as_numpy(): print(int(x))
""").stdout.split()
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    for attempt in range(200):
        process = subprocess.Popen([sys.executable, "-c", HEAD + program], env=environment, stderr=subprocess.PIPE)
        try:
            process.wait(0.5 + 0.037 * (attempt % 20))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait(60)
    assert process.returncode == 0, process.stderr.read().decode()
    # A line is written before its checkpoint is in place, so a kill between the two writes the element a second time.
    lines = (tmp_path / "log").read_text().split()
    rest = [line for i, line in enumerate(lines) if i == 0 or line != lines[i - 1]]
    assert rest == expected and len(expected) == 160
