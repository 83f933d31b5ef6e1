"""Runs test suites, each a GTest suite or a pytest file, in separate processes."""

import os
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

CORES = os.cpu_count() or 1
PYTEST_FOLDERS = ("python/tests", "tests")
TEST_ENVIRONMENT = {"KAREZ_CACHE": "off", "KAREZ_COSTS": "default", "PYTHONDONTWRITEBYTECODE": "1"}
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


@dataclass(frozen=True)
class Suite:
    binary: str  # a test binary's target, or "pytest"
    name: str
    seconds: float = 0
    broken: tuple = ()  # tests that fail without a fault

    def __str__(self):
        return self.name if self.binary == "pytest" else f"{self.name} ({self.binary})"

    @property
    def limit(self):
        """Seconds after which the suite counts as hung, for example if it waits forever."""
        return 30 + 8 * self.seconds

    @property
    def busy(self):
        """Seconds of CPU time after which the suite counts as hung, for example in an endless loop; other load does not
        matter."""
        return int(10 + 3 * self.seconds * CORES)


@dataclass
class Outcome:
    kind: str  # passed, failed, hung, stopped
    seconds: float
    tests: tuple = ()  # the failed tests; empty if the program ended in another way
    text: str = ""


class Runner:
    """Starts suites of one tree."""

    def __init__(self, tree, python):
        self.tree, self.python = tree, python

    def words(self, suite, program, tests=()):
        if suite.binary == "pytest":
            out = [self.python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", "-rfE"]
            return out + list(tests or [suite.name, *[f"--deselect={item}" for item in suite.broken]])
        pattern = ":".join(tests) or suite.name + ".*" + ("-" + ":".join(suite.broken) if suite.broken else "")
        return [str(program), f"--gtest_filter={pattern}", "--gtest_brief=1", "--gtest_fail_fast"]

    def run(self, words, limit, stop=None, environment=None, busy=None):
        """Runs a program and returns its outcome after it and all its children have ended."""
        begin = time.monotonic()
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(
                words,
                cwd=self.tree,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | TEST_ENVIRONMENT | (environment or {}),
                start_new_session=True,
                preexec_fn=lambda: bounds(busy),
            )
            kind = None
            try:
                while process.poll() is None and kind is None:
                    if stop is not None and stop.is_set():
                        kind = "stopped"
                    elif time.monotonic() - begin > limit:
                        kind = "hung"
                    else:
                        try:
                            process.wait(0.05 if stop is not None else min(1, limit))
                        except subprocess.TimeoutExpired:
                            pass
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
            out.seek(0)
            text = out.read().decode(errors="replace")
        seconds = time.monotonic() - begin
        if kind is None and process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            kind = "hung"
        elif kind is None:
            kind = "passed" if process.returncode == 0 or process.returncode == 5 and "pytest" in words else "failed"
        failed = re.findall(r"^\[  FAILED  \] ([\w./]+)", text, re.M) + re.findall(
            r"^(?:FAILED|ERROR) (\S+)", text, re.M
        )
        return Outcome(kind, seconds, tuple(dict.fromkeys(item for item in failed if "." in item)), text[-2000:])


def bounds(busy):
    if busy:
        resource.setrlimit(resource.RLIMIT_CPU, (busy, busy + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))  # a fault may request any number of bytes
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def list_tests(program):
    """The suites of a test binary, without those whose tests are all disabled."""
    out = subprocess.run(
        [str(program), "--gtest_list_tests"],
        capture_output=True,
        text=True,
        env=os.environ | TEST_ENVIRONMENT,
        check=True,
    ).stdout
    suites, suite = [], None
    for line in out.splitlines():
        if line and not line[0].isspace() and line.split()[0].endswith("."):
            suite = line.split()[0][:-1]
        elif suite and line.startswith("  ") and not line.strip().startswith("DISABLED_") and suite not in suites:
            suites.append(suite)
    return suites


def test_files(tree, folders):
    return sorted(
        str(path.relative_to(tree))
        for folder in folders
        for path in (tree / folder).glob("*.py")
        if path.name.startswith("test_") or path.name.endswith("_test.py")
    )


@dataclass
class Detection:
    suite: Suite
    how: str  # the failed test, or how the suite ended


def race(suites, start):
    """Runs suites in parallel until one does not pass. Returns that suite with its outcome (or None), and the suites
    that passed."""
    waiting, passed, found = list(suites), [], []
    lock, stop = threading.Lock(), threading.Event()

    def work():
        while True:
            with lock:
                if stop.is_set() or not waiting:
                    return
                suite = waiting.pop(0)
            outcome = start(suite, stop)
            with lock:
                if outcome.kind == "passed":
                    passed.append(suite)
                elif outcome.kind != "stopped" and not found:
                    found.append((suite, outcome))
                    stop.set()

    threads = [threading.Thread(target=work) for _ in range(min(CORES, len(waiting)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        stop.set()
        for thread in threads:
            thread.join()
        raise
    return (found[0] if found else None), passed


def notice(suites, start):
    """Finds the first suite that fails, crashes or hangs, and does so again when run alone. start(suite, stop, tests)
    runs a suite."""
    waiting = list(suites)
    while waiting:
        found, passed = race(waiting, lambda suite, stop: start(suite, stop, ()))
        if found is None:
            return None
        suite, first = found
        rerun = start(suite, None, first.tests[:1])
        if rerun.kind == "passed" and first.tests:
            rerun = start(suite, None, ())  # a failure may depend on earlier tests
        if rerun.kind == "failed":
            return Detection(suite, rerun.tests[0] if rerun.tests else str(suite) + " ended prematurely")
        if rerun.kind == "hung":
            return Detection(suite, f"{suite} hung twice")
        waiting = [item for item in waiting if item not in passed and item != suite]
    return None
