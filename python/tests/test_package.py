"""The package as part of a process: import, signals, the interpreter's lock, forks, and launchers."""

# builds: karez_command
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("KAREZ_BUILD", "build")


def script(text, *prefix, code=0, timeout=300):
    environment = os.environ | {"PYTHONPATH": str(BUILD / "python")}
    done = subprocess.run(
        [*prefix, sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_import_starts_no_thread_opens_no_socket_and_is_quick():
    threads_of_numpy = int(script("import os, numpy; print(len(os.listdir('/proc/self/task')))"))
    best = 1e9
    for _ in range(5):  # processor time, which is longer on a shared core
        out = script("""
            import time, os
            import numpy
            used = time.process_time()
            import karez
            used = time.process_time() - used
            files = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
            sockets = [file for file in files if os.path.exists(file) and "socket" in os.readlink(file)]
            print(len(os.listdir("/proc/self/task")), len(sockets), used)
        """)
        threads, sockets, seconds = out.split()
        assert (int(threads), int(sockets)) == (threads_of_numpy, 0)
        best = min(best, float(seconds))
        if best <= 0.3:
            break
    assert best <= 0.3


def test_the_version_is_that_of_the_build():
    import karez as kz

    assert f"VERSION {kz.__version__} " in (ROOT / "CMakeLists.txt").read_text()


SLOW = """
    import os, signal, threading, time
    import numpy as np
    import karez as kz
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent process may have ignored the signal
    x = np.random.default_rng(0).normal(size=(1500, 1500)).astype(np.float32)
    @kz.compile
    def slow(x):
        for _ in range(10):
            x = (x @ x) * 1e-3
        return x.sum()
    slow.compile(x)
"""


def test_ctrl_c_ends_a_wait_at_once_and_the_launch_ends_later():
    """The wait must end within a tenth of the time of a launch, which is also longer on a busy machine. If the timer is
    late, the trial is repeated."""
    out = script(
        SLOW
        + """
    begin = time.time()
    float(slow(x))
    limit = max(0.15, (time.time() - begin) / 10)
    best = 1e9
    for attempt in range(5):
        result, at, ended = slow(x), [], False
        threading.Timer(0.2, lambda: (at.append(time.time()), os.kill(os.getpid(), signal.SIGINT))).start()
        try:
            result.numpy()
            ended = True
            time.sleep(60)
        except KeyboardInterrupt:
            best = best if ended else min(best, time.time() - at[0])
        if best <= limit:
            break
    print(best / limit)
    print(np.isfinite(float(result)) or True, float(kz.compile(lambda a: a * 2)(4.0)))
    """
    )
    first, rest = out.split("\n", 1)
    assert float(first) <= 1 and rest == "True 8.0\n"


def test_other_threads_run_while_one_waits():
    out = script(
        SLOW
        + """
    counted, stop = [0], threading.Event()
    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)
    thread = threading.Thread(target=count)
    result = slow(x)
    thread.start()
    begin = time.time()
    float(result)
    stop.set(); thread.join()
    print((time.time() - begin) / max(1, counted[0]))
    """
    )
    assert float(out) < 0.05, "each iteration of the other thread, which sleeps for 0.001 s, must take less than 0.05 s"


def test_a_fork_before_the_first_world_works_and_one_after_it_is_an_error():
    assert (
        script(
            """
        import os, sys
        import karez as kz
        if os.fork() == 0:
            print(float(kz.compile(lambda a: a * 2)(4.0)), flush=True)
            os._exit(0)
        os.wait()
        kz.init()
        if os.fork() == 0:
            compile_and_call = lambda: kz.compile(lambda a: a)(1.0)
            for call in (lambda: kz.Mesh(), compile_and_call, kz.rank, lambda: f(2.0), lambda: float(before)):
                try:
                    call()
                    print("no error", flush=True)
                except kz.Error as error:
                    print("was forked from a process with a world" in str(error), flush=True)
            os._exit(0)
        os.wait()
    """.replace("kz.init()\n", "f = kz.compile(lambda a: a + 1); before = f(1.0)\n")
        )
        == "8.0\n" + "True\n" * 5
    )


def test_ranks_of_karez_run_train_as_one_process_does():
    text = """
        import numpy as np
        import karez as kz
        from karez import F, nn
        net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)).double()
        opt = kz.optim.Adam(net.parameters(), lr=1e-2)
        mesh = kz.Mesh(data=2)
        @kz.compile(mesh=mesh)
        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            loss.backward(); opt.step()
            return loss
        random = np.random.default_rng(0)
        x, y = random.normal(size=(8, 6)), random.integers(0, 4, 8)
        losses = [float(step(x, y)) for _ in range(5)]
        kz.barrier()
        print(kz.ranks(), *losses)
    """
    one_process, two_ranks = (
        script(text).split(),
        script(text, BUILD / "tools" / "karez", "run", "-n", "2").splitlines(),
    )
    assert len(two_ranks) == 2
    for line in two_ranks:
        fields = line.split()
        assert fields[-6] == "2" and [float(loss) for loss in fields[-5:]] == pytest.approx(
            [float(loss) for loss in one_process[1:]], rel=1e-10
        )
